// Output projection and cross-entropy in one op, a chunk of tokens at a time: the logits of a large
// vocabulary never exist whole, and the gradient is made where the logits lie.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "ops/float8_product.h"

namespace titan::ops {

inline constexpr int64_t kIgnoredLabel = -100;

// sum over tokens with label != kIgnoredLabel of (logsumexp(h W^T) - (h W^T)[label]) * scale, a
// 0-dim tensor of float32 or wider. h [N, D], weight [V, D] of one dtype; labels [N] int64; scale
// 0-dim, float32 (float64 for float64), on the device: 1 / valid tokens of the whole step, times
// the loss scale. chunk_tokens 0 picks a chunk whose float32 logits take about 256 MiB on a CPU, 2
// GiB on a device. With a recipe the products are in float8, whose scales are of a chunk.
at::Tensor linear_cross_entropy(const at::Tensor& h, const at::Tensor& weight,
                                const at::Tensor& labels, const at::Tensor& scale,
                                int64_t chunk_tokens = 0,
                                const std::optional<Float8Recipe>& float8 = std::nullopt);

// Tokens whose logits exist at one time: `asked`, or a choice by size when it is 0.
int64_t loss_chunk_tokens(int64_t tokens, int64_t vocab, int64_t asked, bool on_cpu);

namespace reference {
at::Tensor linear_cross_entropy(const at::Tensor& h, const at::Tensor& weight,
                                const at::Tensor& labels, const at::Tensor& scale);
}

}  // namespace titan::ops
