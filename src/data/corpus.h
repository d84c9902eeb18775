// All files of a data set as one numbered sequence of records, readable at any number. Blocks are
// kept in a cache of bounded size; what is not there any more is read again. Safe to use from
// several threads.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "data/sources/source.h"

namespace titan::data {

// Where a record number lies: the start of a block. Stored in checkpoints so that a resumed run
// does not read the data set from its beginning.
struct BlockStart {
  int64_t record = 0;  // number of the block's first record
  int64_t file = 0;    // index into the files
  Place place;
};

struct FoundRecord {
  std::shared_ptr<const Block> block;
  int64_t index = 0;  // of the record in the block
  BlockStart start;

  const Record& record() const { return block->records[static_cast<size_t>(index)]; }
};

class Corpus {
 public:
  // Opens no file yet. REQUIRES at least one file.
  Corpus(std::vector<DataFile> files, SourceOptions options, int64_t cache_bytes = 128 << 20);

  // Record `number` (from 0, over all files in order); nullopt when the data set has fewer. Throws
  // Error when a file cannot be read.
  std::optional<FoundRecord> find(int64_t number);
  // The number of records, once a find() went beyond the last.
  std::optional<int64_t> size() const;
  // Irregularities behind the last record of the data set (nothing to attach them to); empty until
  // size() is known.
  std::vector<Note> loose_notes() const;

  // A start that an earlier corpus of the same files reported.
  void add_start(const BlockStart& start);

  const std::vector<DataFile>& files() const { return files_; }
  // Identifies the data: names and sizes of the files and how records are cut.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  // Notes of blocks without records travel to the next block that has one.
  struct Start {
    int64_t file = 0;
    Place place;
    std::vector<Note> carried;
  };
  struct Cached {
    BlockStart start;
    std::shared_ptr<const Block> block;
  };

  std::shared_ptr<const Block> load(int64_t record, const Start& start);
  Source& source(int64_t file);
  void remember(int64_t record, Start start);

  const std::vector<DataFile> files_;
  const SourceOptions options_;
  const int64_t cache_limit_;
  uint64_t fingerprint_ = 0;

  mutable std::mutex mutex_;
  std::map<int64_t, Start> starts_;  // known block starts by record number
  std::optional<int64_t> size_;
  std::vector<Note> loose_notes_;
  std::list<Cached> cache_;  // most recently used first
  int64_t cached_bytes_ = 0;
  std::map<int64_t, std::unique_ptr<Source>> sources_;  // open files, by index
  std::list<int64_t> open_order_;                       // most recently used first
};

}  // namespace titan::data
