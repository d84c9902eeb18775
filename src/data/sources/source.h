// The seam of file formats. A source reads one file as blocks of consecutive records; a record is
// what may become a document: a line, a paragraph, a row. Blocks can be read again from their
// position, so nothing has to be kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/report.h"

namespace titan::data {

enum class Format { kText, kJsonLines, kParquet, kArrowFile, kArrowStream };
enum class Compression { kNone, kGzip, kZstd };
enum class TextDocument { kLine, kParagraph, kFile };

struct DataFile {
  std::filesystem::path path;
  std::string name;  // for messages and the fingerprint: the path below the data set's folder
  Format format = Format::kText;
  Compression compression = Compression::kNone;
  int64_t bytes = 0;
};

struct SourceOptions {
  std::string text_key = "text";
  TextDocument text_document = TextDocument::kLine;
  int64_t block_bytes = 1 << 20;  // aimed size of a block; a longer record makes a longer block
};

enum class RecordState : uint8_t {
  kText,        // bytes of a text file, line ends as they are there
  kRow,         // text of a row
  kJson,        // bytes of a JSON line
  kNull,        // a row whose text is null
  kUnreadable,  // a row the file lists but cannot give
};

struct Record {
  std::string_view bytes;  // inside Block::storage
  int64_t line = 0;        // line (from 1) or row (from 1) in the file
  RecordState state = RecordState::kText;
};

// An irregularity met while cutting records, counted when record `record` of the block is consumed.
struct Note {
  int32_t record = 0;
  Irregularity what = Irregularity::kBlankLine;
  int64_t count = 1;
  int64_t line = 0;
  int64_t file = -1;  // set where it is not the block's own file
};

// Where a block starts: `position` is the format's own (byte offset, row, batch); `line` the line
// or row number there.
struct Place {
  int64_t position = 0;
  int64_t line = 1;
};

struct Block {
  std::vector<Record> records;
  std::vector<Note> notes;  // ordered by record; in a block without records they belong to the next
                            // record there is
  std::shared_ptr<const void> storage;
  int64_t bytes = 0;          // memory it holds, for the cache
  std::optional<Place> next;  // nullopt: the file ends here
};

class Source {
 public:
  virtual ~Source() = default;
  // The block at `place`: {0, 1} or a place that an earlier block gave as its next. Throws Error
  // when the file cannot be read at all; damage inside the file is a note. The same place always
  // gives the same block.
  virtual Block read(const Place& place) = 0;
};

// Opens a file; throws Error naming file, reason and remedy (unknown column, no such file, not of
// its format).
std::unique_ptr<Source> open_source(const DataFile& file, const SourceOptions& options);

}  // namespace titan::data
