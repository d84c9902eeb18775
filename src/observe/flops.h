// Floating-point operations a training step costs by the formula people compare model FLOPs
// utilisation (MFU) with: what the model needs, not what the hardware did, so recomputation counts
// nothing and causal attention counts in full.
#pragma once

#include <cstdint>

namespace titan::observe {

// Sizes of a decoder-only transformer, as plain numbers because this area knows no model.
struct TransformerSize {
  int64_t parameters = 0;            // a tied matrix counts once
  int64_t embedding_parameters = 0;  // tok_embeddings.weight
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  int64_t seq_len = 0;
  bool tied = false;  // the output projection is the embedding matrix
};

// Per token, forward and backward (the backward pass costs twice the forward one).
struct FlopsPerToken {
  double matrices =
      0;  // 6 per parameter that is multiplied: every one but the embedding, which is looked up
  double attention = 0;  // 12 * layers * heads * head_dim * seq_len
  double total() const { return matrices + attention; }
};

// Differs from TorchTitan for tied models: the output projection is computed there too, so it
// counts (6 more per embedding parameter); TorchTitan leaves it out and its MFU of tied models
// reads lower.
FlopsPerToken flops_per_token(const TransformerSize& size);

}  // namespace titan::observe
