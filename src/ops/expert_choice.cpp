#include "ops/expert_choice.h"

#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "base/error.h"
#include "ops/npu_moe.h"
#include "ops/npu_ops.h"

namespace titan::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<Tensor>;

Tensor in_float(const Tensor& x) { return x.to(at::promote_types(x.scalar_type(), at::kFloat)); }

Tensor scores_of(const Tensor& logits, Scoring scoring) {
  return scoring == Scoring::kSoftmax ? at::softmax(logits, -1) : at::sigmoid(logits);
}

// The first `count` of a stable descending order.
Tensor best_of(const Tensor& x, int64_t count) {
  return at::argsort(x, /*stable=*/true, -1, /*descending=*/true).narrow(-1, 0, count);
}

// Minus infinity for the experts of all but the best groups.
Tensor in_best_groups(const Tensor& rated, const ChoiceRule& rule) {
  const Tensor grouped = rated.unflatten(-1, {rule.groups, -1});
  const Tensor best = best_of(std::get<0>(grouped.topk(2, -1)).sum(-1), rule.kept_groups);
  const Tensor hidden = at::ones({rated.size(0), rule.groups}, rated.options().dtype(at::kBool))
                            .scatter_(1, best, false);
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  return grouped.masked_fill(hidden.unsqueeze(-1), kNever).flatten(1);
}

Tensor best_experts(const Tensor& scores, const OptionalTensor& bias, const ChoiceRule& rule) {
  Tensor rated = bias ? scores + bias->to(scores.scalar_type()) : scores;
  if (rule.groups > 1) rated = in_best_groups(rated, rule);
  return best_of(rated, rule.top_k);
}

Tensor weights_of(const Tensor& chosen, const ChoiceRule& rule) {
  const Tensor weights =
      rule.normalize ? chosen / (chosen.sum(-1, true) + kWeightSumEpsilon) : chosen;
  return rule.scale == 1 ? weights : weights * rule.scale;
}

struct Choice {
  Tensor scores, experts, weights;
};

Choice choose(const Tensor& logits, const OptionalTensor& bias, const ChoiceRule& rule) {
  if (npu::is_npu(logits) && logits.numel() > 0 && npu::choice_serves(logits.size(1), rule)) {
    OptionalTensor float_bias;
    if (bias) float_bias = bias->to(logits.scalar_type());
    const auto choice = npu::choose(logits, float_bias, rule);
    const Tensor experts = choice.experts.to(at::kLong);
    // The kernel divides sigmoid scores by their sum, and never softmax scores.
    const bool as_asked = rule.normalize == (rule.scoring == Scoring::kSigmoid);
    return {choice.scores, experts,
            as_asked ? choice.weights : weights_of(choice.scores.gather(1, experts), rule)};
  }
  const Tensor scores = scores_of(logits, rule.scoring);
  const Tensor experts = best_experts(scores, bias, rule);
  return {scores, experts, weights_of(scores.gather(1, experts), rule)};
}

// The gradient of the chosen scores, from that of the weights.
Tensor backward_of_weights(const Tensor& grad, const Tensor& chosen, const ChoiceRule& rule) {
  const Tensor scaled = rule.scale == 1 ? grad : grad * rule.scale;
  if (!rule.normalize) return scaled;
  const Tensor sum = chosen.sum(-1, true) + kWeightSumEpsilon;
  return (scaled - (scaled * chosen).sum(-1, true) / sum) / sum;
}

struct ChooseExperts : torch::autograd::Function<ChooseExperts> {
  static variable_list forward(AutogradContext* ctx, const Tensor& logits,
                               const OptionalTensor& bias, const ChoiceRule& rule) {
    const Choice choice = choose(logits, bias, rule);
    ctx->save_for_backward({choice.scores, choice.experts});
    ctx->mark_non_differentiable({choice.experts});
    ctx->set_materialize_grads(false);
    ctx->saved_data["sigmoid"] = rule.scoring == Scoring::kSigmoid;
    ctx->saved_data["normalize"] = rule.normalize;
    ctx->saved_data["scale"] = rule.scale;
    return {choice.weights, choice.experts};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &scores = saved[0], &experts = saved[1];
    const bool sigmoid = ctx->saved_data["sigmoid"].toBool();
    const ChoiceRule rule{.normalize = ctx->saved_data["normalize"].toBool(),
                          .scale = ctx->saved_data["scale"].toDouble()};
    const Tensor chosen = scores.gather(1, experts);
    Tensor d_chosen = backward_of_weights(grads[0], chosen, rule) * chosen;
    if (sigmoid) d_chosen = d_chosen * (1 - chosen);
    Tensor d_logits = at::zeros_like(scores).scatter_(1, experts, d_chosen);
    // Softmax: every score is moved by every logit.
    if (!sigmoid) d_logits = d_logits - scores * d_chosen.sum(-1, true);
    return {d_logits, Tensor(), Tensor()};
  }
};

void check_rule(const Tensor& logits, const OptionalTensor& bias, const ChoiceRule& rule) {
  TITAN_CHECK(logits.dim() == 2, "logits of {} dimensions, not [tokens, experts]", logits.dim());
  const int64_t experts = logits.size(1);
  TITAN_CHECK(!bias || (bias->dim() == 1 && bias->size(0) == experts),
              "a bias of {} elements for {} experts", bias->numel(), experts);
  TITAN_CHECK(rule.groups >= 1 && experts % rule.groups == 0, "{} experts in {} groups", experts,
              rule.groups);
  const int64_t size = experts / rule.groups;
  TITAN_CHECK(rule.kept_groups >= 1 && rule.kept_groups <= rule.groups, "{} of {} groups are kept",
              rule.kept_groups, rule.groups);
  TITAN_CHECK(rule.groups == 1 || size >= 2, "groups of one expert have no two best");
  TITAN_CHECK(rule.top_k >= 1 && rule.top_k <= size * rule.kept_groups,
              "{} experts for a token, of {}", rule.top_k, size * rule.kept_groups);
}

}  // namespace

namespace reference {
ExpertChoice choose_experts(const Tensor& logits, const OptionalTensor& bias,
                            const ChoiceRule& rule) {
  const Tensor scores = scores_of(in_float(logits), rule.scoring);
  const Tensor experts = best_experts(scores.detach(), bias, rule);
  return {experts, weights_of(scores.gather(1, experts), rule)};
}
}  // namespace reference

ExpertChoice choose_experts(const Tensor& logits, const OptionalTensor& bias,
                            const ChoiceRule& rule) {
  check_rule(logits, bias, rule);
  const auto result = ChooseExperts::apply(in_float(logits), bias, rule);
  return {result[1], result[0]};
}

}  // namespace titan::ops
