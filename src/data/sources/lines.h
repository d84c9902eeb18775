// Plain text and JSON lines: records are lines, paragraphs (ended by a blank line) or the whole
// file.
#pragma once

#include <string>

#include "data/sources/byte_stream.h"
#include "data/sources/source.h"

namespace titan::data {

class LineSource : public Source {
 public:
  LineSource(const DataFile& file, const SourceOptions& options);
  Block read(const Place& place) override;

 private:
  // Bytes [offset, offset + size) of the content, fewer at its end.
  std::string content(int64_t offset, size_t size);
  Block read_whole_file();
  void check_start(std::string_view begin) const;
  [[noreturn]] void refuse_long_record(int64_t line) const;

  DataFile file_;
  TextDocument unit_;
  size_t block_bytes_;
  std::unique_ptr<ByteStream> bytes_;
  std::string
      tail_;  // what the last read saw beyond its block, so that compressed files move forward only
  int64_t tail_offset_ = -1;
};

}  // namespace titan::data
