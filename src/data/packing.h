// Packing: one virtual stream joins its documents, each between BOS and EOS, and cuts the tokens
// into samples of seq_len + 1 without overlap.
//
// Which documents: with V streams, record r of pass e over the data set belongs to stream (r + e)
// mod V. The shift by one per pass lets every stream see every document in time, and keeps a stream
// from starving where the data set has fewer documents than there are streams.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/corpus.h"
#include "data/document.h"
#include "data/report.h"
#include "data/tokenizer/tokenizer.h"

namespace titan::data {

// Where a stream stands: `used` tokens of document `record` in pass `epoch` are already in samples.
// Stored in checkpoints; nothing else of a stream is.
struct StreamPosition {
  int64_t epoch = 0;
  int64_t record = 0;
  int64_t used = 0;
  BlockStart start;  // a hint that saves reading from the beginning; the sample order does not
                     // depend on it
};

struct PackingOptions {
  int64_t seq_len = 0;
  int64_t num_streams = 1;
  std::optional<int64_t> num_epochs;  // nullopt: endless
  bool count_irregularities = true;
};

class PackedStream {
 public:
  // `corpus` and `tokenizer` must outlive it.
  PackedStream(int64_t stream, const PackingOptions& options, Corpus& corpus,
               const Tokenizer& tokenizer);

  // Continues from a position that position() gave.
  void seek(const StreamPosition& position);

  // Writes the next sample to `out` (room for seq_len + 1 ids) and returns how many tokens it has:
  // seq_len + 1, fewer for the last one of a finite set (at least 2), 0 when nothing is left. To
  // `documents`, of the same room, goes the number of each token's document within the sample: 0
  // for the first, the one that goes on from the sample before included. What was read is added to
  // `report`.
  int64_t next(TextExtractor& extractor, int32_t* out, int32_t* documents, DataReport& report);
  bool exhausted() const { return exhausted_ && pending() == 0; }
  // Valid between calls of next().
  StreamPosition position() const;

 private:
  int64_t pending() const { return static_cast<int64_t>(buffer_.size() - head_); }
  int64_t first_record(int64_t epoch) const;
  // Appends the next document's tokens; false when a finite set has none left.
  bool append_document(TextExtractor& extractor, DataReport& report);
  void tokenize(TextExtractor& extractor, const FoundRecord& found, DataReport* report);
  void begin_epoch(DataReport& report);
  void drop_used();

  int64_t stream_;
  PackingOptions options_;
  Corpus& corpus_;
  const Tokenizer& tokenizer_;
  std::vector<int32_t>
      buffer_;  // tokens from head_ on are not used yet; all belong to the last document appended
  size_t head_ = 0;
  std::vector<size_t> starts_;  // where documents begin in buffer_, ascending
  StreamPosition next_;         // the document to append next (used tokens are skipped)
  StreamPosition last_;         // the document appended last
  int64_t last_tokens_ = 0;
  int64_t tokens_in_epoch_ = 0;
  int64_t empty_epochs_ = 0;
  bool exhausted_ = false;
};

}  // namespace titan::data
