// The two tiny models of the tests: all sizes are odd multiples of little, so that no axis divides
// them evenly. A test that needs another size sets it.
#pragma once

#include "models/args.h"

namespace titan::models {

inline ModelArgs tiny_llama3() {
  return {.family = "llama3",
          .flavor = "tiny",
          .dim = 16,
          .num_layers = 3,
          .num_heads = 4,
          .num_kv_heads = 2,
          .head_dim = 6,
          .hidden_dim = 26,
          .vocab_size = 40,
          .max_seq_len = 12,
          .rope_theta = 10000};
}

inline ModelArgs tiny_qwen3() {
  ModelArgs args = tiny_llama3();
  args.family = "qwen3";
  args.vocab_size = 37;
  args.rope_style = RopeStyle::kHalves;
  args.qk_norm = true;
  args.tied = true;
  return args;
}

}  // namespace titan::models
