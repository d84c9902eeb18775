// The attention part of a transformer block: projections, optional norm of queries and keys,
// rotation, attention, output.
#pragma once

#include <ATen/ATen.h>

#include "nn/block_runner.h"
#include "nn/kv_cache.h"
#include "nn/rotary.h"
#include "ops/block_halves.h"

namespace titan::nn {

struct AttentionSizes {  // of the whole model
  int64_t num_heads, num_kv_heads, head_dim;
  double norm_eps;
  bool interleaved_rope;
};

struct Attention {
  at::Tensor wq, wk, wv,
      wo;  // [heads*head_dim, dim], [kv*head_dim, dim] twice, [dim, heads*head_dim]
  at::Tensor q_norm, k_norm;  // [head_dim]; undefined: queries and keys are not normalised

  // The same with every tensor in the computation's dtype.
  Attention with(BlockRunner& runner) const;
};

// The attention half of a block: x + attention(norm(x)). x [B, T, dim], this rank's tokens -> the
// same shape. norm [dim]; rotary: rows for the positions of the tokens of all tensor-parallel
// ranks. The projections hold the heads of this rank (nn/heads.h).
at::Tensor attention_half(const at::Tensor& norm, const Attention& p, const AttentionSizes& sizes,
                          const at::Tensor& x, const RotaryTables& rotary, const Axes& axes,
                          const CacheView& view = {}, const ops::Float8Products& float8 = {});

}  // namespace titan::nn
