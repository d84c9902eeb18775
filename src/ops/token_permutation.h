// The way of tokens to their experts and back. Every token goes to top_k experts; its copies are
// sorted by expert, and within an expert by token, so that an expert's rows lie together
// (ops::grouped_matmul). Without dropped tokens and without padding. Gradients are gathered, not
// added to by index: they are summed in float32 at least and in one order.
//
// The same serves expert parallelism: rows that arrive from several ranks are sorted by expert as
// tokens with one expert each.
#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace titan::ops {

struct PermutedTokens {
  at::Tensor rows;      // [N top_k, D], sorted by expert
  at::Tensor position;  // [N top_k] int32: the row of copy i, which is of token i / top_k
};

// x [N, D], experts [N, top_k] of integers. Differentiable in x.
PermutedTokens permute_tokens(const at::Tensor& x, const at::Tensor& experts);

// Back to the tokens, the sum of each one's copies: rows [N top_k, D] -> [N, D] of rows' dtype.
// `weights` [N, top_k] are factors of the copies; products and sums are in float32 at least.
// Differentiable in rows and weights.
at::Tensor unpermute_tokens(const at::Tensor& rows, const at::Tensor& position, int64_t top_k,
                            const std::optional<at::Tensor>& weights = std::nullopt);

// Weights [N, top_k] in the order of the rows, [N top_k]: for a factor before the experts.
// Differentiable.
at::Tensor permute_weights(const at::Tensor& weights, const at::Tensor& position);

// How many copies each expert takes: [num_experts] int64, on the device. Its cumulative sum are the
// ends that grouped_matmul takes.
at::Tensor count_tokens(const at::Tensor& experts, int64_t num_experts);

namespace reference {
PermutedTokens permute_tokens(const at::Tensor& x, const at::Tensor& experts);
at::Tensor unpermute_tokens(const at::Tensor& rows, const at::Tensor& position, int64_t top_k,
                            const std::optional<at::Tensor>& weights = std::nullopt);
}  // namespace reference

}  // namespace titan::ops
