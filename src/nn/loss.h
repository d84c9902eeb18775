// The output projection fused with the cross-entropy, with the vocabulary split over the
// tensor-parallel ranks (loss parallelism): logits never exist whole, neither in tokens nor in
// vocabulary.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "comm/group.h"
#include "ops/float8_product.h"

namespace titan::nn {

// h [N, dim], weight: this rank's rows of [vocab, dim], labels [N] int64 (ops::kIgnoredLabel is
// left out), scale 0-dim -> the sum of the losses times scale, 0-dim, equal on all ranks. The
// gradient of h is this rank's part of a sum (nn::gather_sequence adds them up).
// chunk_tokens, float8: see ops::linear_cross_entropy.
at::Tensor linear_cross_entropy(const at::Tensor& h, const at::Tensor& weight,
                                const at::Tensor& labels, const at::Tensor& scale,
                                int64_t chunk_tokens, int64_t vocab, const comm::Group& tp,
                                const std::optional<ops::Float8Recipe>& float8 = std::nullopt);

}  // namespace titan::nn
