// torch_npu's operators for mixtures of experts, called by schema like those of npu_ops.h, where
// their schemas stand.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "ops/expert_choice.h"

namespace titan::ops::npu {

// x [rows, in], w [groups, in, out], `ends` [groups] int64 -> [rows, out]: group g of rows times
// w[g]. Of w, contiguous or the transpose of a contiguous tensor. Not differentiable.
at::Tensor product_by_groups(const at::Tensor& x, const at::Tensor& w, const at::Tensor& ends);
// x [rows, in], y [rows, out] -> [groups, in, out]: the transpose of group g of x times that of y.
// Not differentiable.
at::Tensor product_of_groups(const at::Tensor& x, const at::Tensor& y, const at::Tensor& ends);

// See ops::permute_tokens and ops::unpermute_tokens; differentiable by torch_npu.
struct Permuted {
  at::Tensor rows, position;
};
Permuted permute(const at::Tensor& x, const at::Tensor& experts);
// Without weights every token has one copy.
at::Tensor unpermute(const at::Tensor& rows, const at::Tensor& position,
                     const std::optional<at::Tensor>& weights);

// Whether the chips' kernel takes this rule for that many experts.
bool choice_serves(int64_t num_experts, const ChoiceRule& rule);
struct Choice {
  at::Tensor experts;  // [N, top_k] int32
  at::Tensor scores;   // [N, experts] float32
  // [N, top_k]: of sigmoid scores divided by their sum, of softmax scores as they are; scaled.
  at::Tensor weights;
};
// logits [N, experts] and bias [experts] float32. Not differentiable.
Choice choose(const at::Tensor& logits, const std::optional<at::Tensor>& bias,
              const ChoiceRule& rule);

}  // namespace titan::ops::npu
