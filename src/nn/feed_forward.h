// The SwiGLU feed-forward part of a transformer block: w2(silu(w1 x) * w3 x).
#pragma once

#include <ATen/ATen.h>

#include "nn/block_runner.h"
#include "ops/block_halves.h"

namespace titan::nn {

struct FeedForward {
  at::Tensor w1, w2, w3;  // gate [hidden, dim], down [dim, hidden], up [hidden, dim]

  FeedForward with(BlockRunner& runner) const {
    return {runner.parameter(w1), runner.parameter(w2), runner.parameter(w3)};
  }
};

// The feed-forward half of a block: x + feed_forward(norm(x)). x [B, T, dim], this rank's tokens ->
// the same shape; norm [dim]; the hidden dimension is split over the tensor-parallel ranks. The
// result is the last thing its block computes: a recomputed block leaves it out.
at::Tensor feed_forward_half(const at::Tensor& norm, double eps, const FeedForward& p,
                             const at::Tensor& x, const Axes& axes,
                             const ops::Float8Products& float8 = {});

}  // namespace titan::nn
