// The sizes of a decoder-only transformer, as a plain struct: what a row of a family's table, a
// config and a Hugging Face config.json all turn into.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace titan::models {

// Rotary frequencies of Llama 3.1: long wavelengths are divided by `factor`, short ones kept, those
// between interpolated (Llama 3.1 model card; Hugging Face rope_type "llama3").
struct RopeScaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_positions = 8192;
};

// How a head's dims pair up for the rotation: Llama pairs (0,1), (2,3), …; Qwen pairs (i, i +
// head_dim/2).
enum class RopeStyle { kInterleaved, kHalves };

struct ModelArgs {
  std::string family;  // "llama2", "llama3", "qwen3": the name in the registry
  std::string flavor;  // "8B", …
  int64_t dim = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;    // num_heads * head_dim need not equal dim (Qwen3)
  int64_t hidden_dim = 0;  // of the feed-forward part
  int64_t vocab_size = 0;
  int64_t max_seq_len = 2048;
  double norm_eps = 1e-5;
  double rope_theta = 10000;
  std::optional<RopeScaling> rope_scaling;
  RopeStyle rope_style = RopeStyle::kInterleaved;
  bool qk_norm = false;  // RMSNorm over head_dim on queries and keys before the rotation
  bool tied = false;     // output.weight is tok_embeddings.weight
  // Attention stays inside the documents that are packed into a sample. A generation has one.
  bool block_causal = false;
};

}  // namespace titan::models
