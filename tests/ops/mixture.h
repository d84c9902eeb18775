// Inputs of the tests of mixtures of experts.
#pragma once

#include "ops/checks.h"
#include "ops/expert_choice.h"

namespace titan::ops {

// The ends of groups of these sizes.
inline at::Tensor ends_of(const std::vector<int64_t>& counts) {
  return at::tensor(counts, at::kLong).cumsum(0);
}

// [tokens, top_k] experts, none twice for a token; of these the last `idle` take none.
inline at::Tensor seeded_experts(int64_t tokens, int64_t top_k, int64_t experts, int64_t idle = 0,
                                 uint64_t seed = 5) {
  return at::argsort(seeded({tokens, experts - idle}, at::kFloat, seed), true, 1, false)
      .narrow(1, 0, top_k)
      .contiguous();
}

// The weights of all experts: zero for those that were not chosen.
inline at::Tensor all_weights(const ExpertChoice& choice, int64_t experts) {
  return at::zeros({choice.experts.size(0), experts}, choice.weights.options())
      .scatter(1, choice.experts, choice.weights);
}

struct NamedRule {
  const char* name;
  int64_t experts;
  bool biased;
  ChoiceRule rule;
};

// Those of the known models and the edges: one expert, all of them, groups.
inline std::vector<NamedRule> rules() {
  constexpr auto kSoftmax = Scoring::kSoftmax, kSigmoid = Scoring::kSigmoid;
  return {
      {"Qwen3", 16, false, {.top_k = 8, .scoring = kSoftmax, .normalize = true}},
      {"Llama 4", 8, false, {.top_k = 1, .scoring = kSigmoid}},
      {"DeepSeek-V3",
       16,
       true,
       {.top_k = 4,
        .scoring = kSigmoid,
        .groups = 4,
        .kept_groups = 2,
        .normalize = true,
        .scale = 2.5}},
      {"softmax, groups", 12, true, {.top_k = 3, .groups = 3, .kept_groups = 2, .scale = 1.5}},
      {"sigmoid, all groups kept",
       12,
       true,
       {.top_k = 3, .scoring = kSigmoid, .groups = 3, .kept_groups = 3}},
      {"groups of two", 8, true, {.top_k = 2, .groups = 4, .kept_groups = 1, .normalize = true}},
      {"every expert", 5, true, {.top_k = 5, .scoring = kSigmoid, .normalize = true}},
      {"every expert, softmax", 5, false, {.top_k = 5}},
      {"one expert", 1, false, {.top_k = 1, .normalize = true, .scale = 3}},
  };
}

}  // namespace titan::ops
