#include "ops/npu_moe.h"

#include "ops/npu_ops.h"
#include "ops/npu_schemas.h"

namespace titan::ops::npu {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using OptionalTensors = std::optional<at::TensorList>;
using OptionalInt = std::optional<int64_t>;

constexpr int64_t kOneOutput = 2;                   // instead of one tensor for each group
constexpr int64_t kRowsSplit = 0, kInnerSplit = 2;  // the dimension that is cut into groups
constexpr int64_t kEnds = 0;                        // what a list of groups holds, not the sizes

Tensor grouped(const Tensor& x, const Tensor& w, const Tensor& ends, int64_t split) {
  // The first torch_npu 2.9.0 ends with the dtype of the output, in another type.
  static const Either<
      std::vector<Tensor>(at::TensorList, at::TensorList, OptionalTensors, OptionalTensors,
                          OptionalTensors, OptionalTensors, OptionalTensors, OptionalTensors,
                          const OptionalTensor&, OptionalTensors, OptionalTensors, OptionalTensors,
                          OptionalInt, OptionalInt, OptionalInt, OptionalInt,
                          at::OptionalIntArrayRef, std::optional<at::ScalarType>),
      std::vector<Tensor>(
          at::TensorList, at::TensorList, OptionalTensors, OptionalTensors, OptionalTensors,
          OptionalTensors, OptionalTensors, OptionalTensors, const OptionalTensor&, OptionalTensors,
          OptionalTensors, OptionalTensors, OptionalInt, OptionalInt, OptionalInt, OptionalInt,
          at::OptionalIntArrayRef, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt)>
      op("npu::npu_grouped_matmul", "x_dtype");
  const auto no = std::nullopt;
  if (op.first) {
    return op.first->call(x, w, no, no, no, no, no, no, ends, no, no, no, kOneOutput, split, kEnds,
                          0, no, no)[0];
  }
  return op.second->call(x, w, no, no, no, no, no, no, ends, no, no, no, kOneOutput, split, kEnds,
                         0, no, no, no, no, no, no)[0];
}

}  // namespace

Tensor product_by_groups(const Tensor& x, const Tensor& w, const Tensor& ends) {
  return grouped(x, w, ends, kRowsSplit);
}

Tensor product_of_groups(const Tensor& x, const Tensor& y, const Tensor& ends) {
  return grouped(x.t(), y, ends, kInnerSplit);
}

Permuted permute(const Tensor& x, const Tensor& experts) {
  static const auto op =
      find<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, OptionalInt, bool)>(
          "npu::npu_moe_token_permute");
  auto [rows, position] = op.call(x, experts, std::nullopt, false);
  return {rows, position};
}

Tensor unpermute(const Tensor& rows, const Tensor& position, const OptionalTensor& weights) {
  static const auto op = find<Tensor(const Tensor&, const Tensor&, const OptionalTensor&, bool,
                                     at::OptionalIntArrayRef)>("npu::npu_moe_token_unpermute");
  return op.call(rows, position, weights, false, std::nullopt);
}

bool choice_serves(int64_t num_experts, const ChoiceRule& rule) {
  constexpr int64_t kMostExperts = 2048, kAligned = 32, kLeastInGroup = 3;
  if (rule.groups == 1) return num_experts <= kMostExperts;
  const int64_t size = num_experts / rule.groups;
  const int64_t aligned = (size + kAligned - 1) / kAligned * kAligned;
  return size >= kLeastInGroup && aligned * rule.groups <= kMostExperts;
}

Choice choose(const Tensor& logits, const OptionalTensor& bias, const ChoiceRule& rule) {
  // Newer releases can choose by a table of tokens, too.
  using Result = std::tuple<Tensor, Tensor, Tensor>;
  static const Either<Result(const Tensor&, int64_t, const OptionalTensor&, int64_t, int64_t,
                             int64_t, int64_t, int64_t, bool, double, double),
                      Result(const Tensor&, int64_t, const OptionalTensor&, const OptionalTensor&,
                             const OptionalTensor&, int64_t, int64_t, int64_t, int64_t, int64_t,
                             bool, double, double)>
      op("npu::npu_moe_gating_top_k", "tid2eid");
  constexpr int64_t kSumOfBestTwo = 1, kNormFirst = 0;
  const int64_t norm = rule.scoring == Scoring::kSigmoid ? 1 : 0;
  const auto [weights, experts, scores] =
      op.first
          ? op.first->call(logits, rule.top_k, bias, rule.kept_groups, rule.groups, kSumOfBestTwo,
                           kNormFirst, norm, true, rule.scale, kWeightSumEpsilon)
          : op.second->call(logits, rule.top_k, bias, std::nullopt, std::nullopt, rule.kept_groups,
                            rule.groups, kSumOfBestTwo, kNormFirst, norm, true, rule.scale,
                            kWeightSumEpsilon);
  return {experts, scores, weights};
}

}  // namespace titan::ops::npu
