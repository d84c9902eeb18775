// The loader hands out batches of packed samples, made ahead of time by background threads.
//
// Sample order (docs/data.md): with global batch G and V virtual streams (V a multiple of G),
// sample k of the run comes from stream k mod V. Reader r of R takes samples r*G/R … (r+1)*G/R - 1
// of every step and reads only its streams, so the ids of a step do not depend on R, also after
// restore() with another R.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/loader_options.h"
#include "data/report.h"
#include "data/tokenizer/tokenizer.h"

namespace titan::data {

constexpr int32_t kIgnoredLabel = -100;

struct SampleBatch {
  int64_t num_samples =
      0;  // always the local batch size; rows without data have only ignored labels
  int64_t seq_len = 0;
  std::vector<int32_t> inputs;  // [num_samples * seq_len], row-major
  std::vector<int32_t> labels;  // same shape; kIgnoredLabel where there is nothing to predict
  // Same shape: the number of each input's document within its row, 0, 1, …, as the packing knows
  // it; what fills a row up behind the text counts as one more.
  std::vector<int32_t> documents;
  int64_t valid_tokens = 0;  // labels that are not ignored
};

// Changes when the tokenizer would give other ids; 16 hex digits, kept as "tokenizer" in a loader's
// state.
std::string tokenizer_fingerprint(const Tokenizer& tokenizer);

class Loader {
 public:
  // Finds the files and checks the options; throws Error. `tokenizer` must outlive the loader.
  Loader(LoaderOptions options, const Tokenizer& tokenizer);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next local batch; nullopt when num_epochs are through and this reader's streams are empty.
  // Readers of one run can end at different steps: one that got nullopt takes part in the others'
  // steps with empty_batch(). Throws Error when the data cannot be read.
  std::optional<SampleBatch> next();
  // A batch in which every label is ignored.
  SampleBatch empty_batch() const;

  // Where this reader stands, batches made ahead not counted. REQUIRES a step boundary (a whole
  // number of accumulation steps). A few numbers per stream.
  nlohmann::json state() const;
  // The states of all readers of a step as one, fit for any number of readers.
  static nlohmann::json merge_states(std::span<const nlohmann::json> states);
  // Continues from a state() or merge_states(); throws Error when the data, the tokenizer or the
  // stream count do not fit.
  void restore(const nlohmann::json& state);
  // Back to the first sample, for another pass.
  void rewind();

  // What this reader has handed out and met; sum over readers with +=.
  const DataReport& report() const;
  // Seconds next() has waited for data, in total.
  double wait_s() const;
  int64_t virtual_streams() const;
  const Dataset& dataset() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace titan::data
