// Loss on held-out text.
#pragma once

#include <optional>

#include "data/loader.h"
#include "data/tokenizer/tokenizer.h"
#include "train/state.h"

namespace titan::train {

struct EvaluationResult {
  double loss = 0;           // nats per label token, over all of them
  double bits_per_byte = 0;  // loss over the text's bytes, in bits; comparable between tokenizers
  int64_t tokens = 0;
  int64_t bytes = 0;
  double seconds = 0;
};

class Evaluation {
 public:
  // steps -1: the whole set once. The loader is rewound before each run.
  Evaluation(std::unique_ptr<data::Loader> loader, const data::Tokenizer& tokenizer, int64_t steps,
             at::Device device);

  // Leaves parameters and training state untouched.
  EvaluationResult run(TrainingState& state);

 private:
  std::unique_ptr<data::Loader> loader_;
  int64_t steps_;
  at::Device device_;
  std::vector<int32_t> bytes_of_token_;
};

}  // namespace titan::train
