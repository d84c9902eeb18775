// The two halves of a transformer block as one differentiable function each, on titan's CUDA
// operators: the residual is added in the last product, the gradient of the residual stream inside
// the norm's, weights that lie behind each other are read as one matrix, their gradients are made
// in the dtype that the graph wants, and nothing is saved that the backward pass does not read.
// Values are those of the separate ops.
#pragma once

#include <ATen/ATen.h>

#include <string>

namespace titan::ops {

// Which products of a half are computed in float8 with one dynamic scale for a tensor (values and
// weights in E4M3, gradients in E5M2); packed weights share theirs.
struct Float8Products {
  bool into = false;    // queries, keys, values; gate, up
  bool out_of = false;  // output; down
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
// Why this machine has no float8 products; empty: it has. `device` is a GPU.
std::string float8_refusal(at::Device device);

// x [B, T, dim] -> x + w_out attention(rope(w norm(x))), causal.
at::Tensor attention_half(const at::Tensor& x, const AttentionHalf& p);
// x [B, T, dim] -> x + w_down swiglu(w norm(x)). The result is the last thing its block
// computes: a recomputed block leaves it out.
at::Tensor feed_forward_half(const at::Tensor& x, const FeedForwardHalf& p);

}  // namespace titan::ops
