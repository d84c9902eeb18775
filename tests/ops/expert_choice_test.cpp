#include "ops/expert_choice.h"

#include <numeric>

#include "ops/mixture.h"

namespace titan::ops {
namespace {

using at::Tensor;

Function weights_by(const std::optional<Tensor>& bias, const ChoiceRule& rule, bool plain) {
  return [=](const Inputs& in) {
    return all_weights(
        plain ? reference::choose_experts(in[0], bias, rule) : choose_experts(in[0], bias, rule),
        in[0].size(1));
  };
}

std::optional<Tensor> bias_of(const NamedRule& test) {
  if (!test.biased) return std::nullopt;
  return seeded({test.experts}, at::kFloat, 4) / 4;
}

std::vector<int64_t> best(const std::vector<double>& values, int64_t count) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return values[a] > values[b]; });
  order.resize(count);
  return order;
}

// One token, number by number: the weight of every expert.
std::vector<double> by_hand(const std::vector<double>& logits, const std::vector<double>& bias,
                            const ChoiceRule& rule) {
  const size_t experts = logits.size(), size = experts / rule.groups;
  std::vector<double> scores(experts), rated(experts), weights(experts, 0);
  double total = 0;
  for (const double x : logits) total += std::exp(x);
  for (size_t e = 0; e < experts; ++e) {
    scores[e] = rule.scoring == Scoring::kSoftmax ? std::exp(logits[e]) / total
                                                  : 1 / (1 + std::exp(-logits[e]));
    rated[e] = scores[e] + bias[e];
  }
  if (rule.groups > 1) {
    std::vector<double> of_group, seen(experts, -INFINITY);
    for (int64_t g = 0; g < rule.groups; ++g) {
      std::vector<double> members(rated.begin() + g * size, rated.begin() + (g + 1) * size);
      std::ranges::sort(members, std::greater());
      of_group.push_back(members[0] + members[1]);
    }
    for (const int64_t g : best(of_group, rule.kept_groups)) {
      for (size_t e = g * size; e < (g + 1) * size; ++e) seen[e] = rated[e];
    }
    rated = seen;
  }
  double sum = 0;
  const auto chosen = best(rated, rule.top_k);
  for (const int64_t e : chosen) sum += scores[e];
  for (const int64_t e : chosen) {
    weights[e] = scores[e] * rule.scale / (rule.normalize ? sum : 1);
  }
  return weights;
}

TEST(ExpertChoice, IsTheFormula) {
  for (const auto& test : rules()) {
    const Tensor logits = seeded({20, test.experts}, at::kDouble),
                 bias = bias_of(test).value_or(at::zeros({test.experts})).to(at::kDouble);
    const Tensor got = all_weights(
        choose_experts(logits, test.biased ? std::optional<Tensor>(bias) : std::nullopt, test.rule),
        test.experts);
    const auto row = [](const Tensor& x) {
      return std::vector<double>(x.const_data_ptr<double>(),
                                 x.const_data_ptr<double>() + x.numel());
    };
    for (int64_t n = 0; n < logits.size(0); ++n) {
      const Tensor expected =
          at::tensor(by_hand(row(logits[n]), row(bias), test.rule), at::kDouble);
      EXPECT_LE(distance(got[n], expected), 1e-14) << test.name << ", token " << n;
    }
  }
}

TEST(ExpertChoice, MatchesReferenceInEveryDtype) {
  for (const auto& [dtype, tolerance] : precisions()) {
    for (const auto& test : rules()) {
      for (const int64_t tokens : {9, 1, 0}) {
        const auto bias = bias_of(test);
        const Tensor logits = seeded({tokens, test.experts}, dtype);
        const Result expected = run(weights_by(bias, test.rule, true), {logits});
        const Function f = weights_by(bias, test.rule, false);
        expect_close(run(f, {logits}), expected, tolerance, test.name);
        expect_close(run(f, {strided(logits)}), expected, tolerance, test.name);
        EXPECT_TRUE(at::equal(choose_experts(logits, bias, test.rule).experts,
                              reference::choose_experts(logits, bias, test.rule).experts));
      }
    }
  }
}

TEST(ExpertChoice, HasTrueGradients) {
  for (const auto& test : rules()) {
    SCOPED_TRACE(test.name);
    const auto f = weights_by(bias_of(test), test.rule, false);
    // One expert that is normalised has a weight that nothing moves.
    if (test.experts > 1) expect_true_gradients(f, {seeded({3, test.experts}, at::kDouble)});
  }
}

TEST(ExpertChoice, OfEqualScoresTheFirstExpertsAreTaken) {
  for (auto test : rules()) {
    const Tensor logits = at::full({2, test.experts}, 0.25);
    const Tensor experts = choose_experts(logits, std::nullopt, test.rule).experts;
    EXPECT_TRUE(at::equal(experts[0], at::arange(test.rule.top_k))) << test.name;
    EXPECT_TRUE(at::equal(experts[1], experts[0])) << test.name;
  }
}

TEST(ExpertChoice, TheBiasChoosesAndDoesNotWeigh) {
  const Tensor logits = at::tensor({3.0f, 2.0f, 1.0f, 0.0f}).view({1, 4});
  const Tensor bias = at::tensor({0.0f, 0.0f, 0.0f, 5.0f});
  const ChoiceRule rule{.top_k = 2, .scoring = Scoring::kSigmoid};
  const auto choice = choose_experts(logits, bias, rule);
  EXPECT_TRUE(at::equal(choice.experts[0], at::tensor({3, 0}, at::kLong)));
  EXPECT_LE(distance(choice.weights[0], at::sigmoid(at::tensor({0.0f, 3.0f}))), 1e-6);
  EXPECT_FALSE(choice.experts.requires_grad());
}

TEST(ExpertChoice, RefusesWhatDoesNotFit) {
  const Tensor logits = seeded({2, 8});
  EXPECT_ANY_THROW(choose_experts(logits, std::nullopt, {.top_k = 9}));
  EXPECT_ANY_THROW(choose_experts(logits, std::nullopt, {.top_k = 0}));
  EXPECT_ANY_THROW(choose_experts(logits, std::nullopt, {.top_k = 3, .groups = 4}));
  EXPECT_ANY_THROW(choose_experts(logits, std::nullopt, {.groups = 3}));
  EXPECT_ANY_THROW(choose_experts(logits, std::nullopt, {.groups = 8}));
  EXPECT_ANY_THROW(choose_experts(logits, std::nullopt, {.groups = 2, .kept_groups = 3}));
  EXPECT_ANY_THROW(choose_experts(logits, seeded({7}), {}));
  EXPECT_ANY_THROW(choose_experts(seeded({2, 2, 8}), std::nullopt, {}));
}

}  // namespace
}  // namespace titan::ops
