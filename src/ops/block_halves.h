// The two halves of a transformer block as one differentiable function each, on titan's CUDA
// operators: the residual is added in the last product, the gradient of the residual stream inside
// the norm's, weights that lie behind each other are read as one matrix, their gradients are made
// in the dtype that the graph wants, and nothing is saved that the backward pass does not read.
// Values are those of the separate ops.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "ops/float8_product.h"

namespace titan::ops {

// Which products of a half are computed in float8. Weights that are read as one matrix share
// scales.
struct Float8Products {
  std::optional<Float8Recipe> into;    // queries, keys, values; gate, up
  std::optional<Float8Recipe> out_of;  // output; down
};

struct AttentionHalf {
  at::Tensor norm;        // [dim]
  at::Tensor wq, wk, wv;  // [heads head_dim, dim], [kv_heads head_dim, dim] twice
  at::Tensor w_out;       // [dim, heads head_dim]
  at::Tensor cos, sin;    // see ops::rope
  int64_t heads, kv_heads, head_dim;
  double eps;
  bool interleaved_rope;
  Float8Products float8 = {};
};

struct FeedForwardHalf {
  at::Tensor norm;          // [dim]
  at::Tensor w_gate, w_up;  // [hidden, dim]
  at::Tensor w_down;        // [dim, hidden]
  double eps;
  Float8Products float8 = {};
};

// Whether attention_half() takes such heads and x [B, T, dim] on this machine.
bool attention_half_serves(const at::Tensor& x, int64_t heads, int64_t kv_heads, int64_t head_dim);
bool feed_forward_half_serves(const at::Tensor& x, int64_t hidden);
// Whether they compute these products: tensorwise scales, on the GPU's float8 units.
bool fused_halves_take(const Float8Products& float8);

// x [B, T, dim] -> x + w_out attention(rope(w norm(x))), causal.
at::Tensor attention_half(const at::Tensor& x, const AttentionHalf& p);
// x [B, T, dim] -> x + w_down swiglu(w norm(x)). The result is the last thing its block
// computes: a recomputed block leaves it out.
at::Tensor feed_forward_half(const at::Tensor& x, const FeedForwardHalf& p);

}  // namespace titan::ops
