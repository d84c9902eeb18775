// Which experts of a mixture take a token, and with which weights: scores of all experts, the best
// of them, their weights. Saves the scores and the choice, not the steps between.
//
// Scores are computed in float32 at least. Of equal scores the expert with the smaller number is
// taken, so the choice is the same on every device.
#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace titan::ops {

enum class Scoring { kSoftmax, kSigmoid };

struct ChoiceRule {
  int64_t top_k = 1;  // experts for a token
  Scoring scoring = Scoring::kSoftmax;
  // Node-limited choice (DeepSeek-V3, arXiv 2412.19437): experts lie in `groups` equal groups, and
  // those of the `kept_groups` best groups, by the sum of a group's two best, are looked at.
  int64_t groups = 1, kept_groups = 1;
  bool normalize = false;  // weights are divided by their sum
  double scale = 1;        // and then multiplied by this
};

constexpr double kWeightSumEpsilon = 1e-20;

struct ExpertChoice {
  at::Tensor experts;  // [N, top_k] int64, the best first
  at::Tensor weights;  // [N, top_k] float32 (float64 of float64 logits)
};

// logits [N, experts] of any dtype. `bias` [experts] takes part in the choice and not in the
// weights, and no gradient reaches it. The weights are differentiable in the logits.
ExpertChoice choose_experts(const at::Tensor& logits, const std::optional<at::Tensor>& bias,
                            const ChoiceRule& rule);

namespace reference {
ExpertChoice choose_experts(const at::Tensor& logits, const std::optional<at::Tensor>& bias,
                            const ChoiceRule& rule);
}

}  // namespace titan::ops
