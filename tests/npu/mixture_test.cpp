// The ops of a mixture of experts on an NPU against their references on the CPU, one by one and as
// the layer that they make.
#include "ops/mixture.h"

#include <gtest/gtest.h>

#include "npu/npu.h"
#include "ops/grouped_matmul.h"
#include "ops/swiglu.h"
#include "ops/token_permutation.h"

namespace titan::ops {
namespace {

using at::Tensor;

struct Tolerance {
  at::ScalarType dtype;
  double tolerance;
};
const std::vector<Tolerance> kDtypes = {
    {at::kFloat, 5e-6}, {at::kBFloat16, 3e-2}, {at::kHalf, 4e-3}};

// CANN's launches of an operator are counted when its stream runs it.
uint64_t launches(const std::string& prefix) {
  at::zeros({1}, at::TensorOptions(kNpu)).cpu();
  return calls(prefix);
}

TEST(NpuMixture, GroupedMatmulMatchesItsReference) {
  const std::vector<std::vector<int64_t>> cases = {{3, 0, 5, 1}, {0, 0, 7}, {7, 0, 0},
                                                   {4},          {2, 2},    {0, 0}};
  for (const auto& [dtype, tolerance] : kDtypes) {
    for (const auto& counts : cases) {
      const Tensor ends = ends_of(counts);
      const auto experts = static_cast<int64_t>(counts.size());
      const int64_t rows = ends[-1].item<int64_t>();
      const Tensor x = seeded({rows, 6}, dtype), w = seeded({experts, 4, 6}, dtype, 2);
      SCOPED_TRACE(testing::Message() << dtype << " " << at::IntArrayRef(counts));
      const Function f = [&](const Inputs& in) {
        return grouped_matmul(in[0], in[1], ends.to(in[0].device()));
      };
      const Result expected = run_on(
          at::kCPU, [&](const Inputs& in) { return reference::grouped_matmul(in[0], in[1], ends); },
          {x, w});
      const uint64_t before = launches("aclnnGroupedMatmul");
      const Result got = run_on(kNpu, f, {x, w});
      EXPECT_EQ(launches("aclnnGroupedMatmul") - before, rows == 0 ? 0u : 3u);
      expect_close(got, expected, tolerance, "grouped_matmul");
      const Function turned = [&](const Inputs& in) {
        return f({in[0].t().contiguous().t(), in[1].transpose(1, 2).contiguous().transpose(1, 2)});
      };
      expect_close(run_on(kNpu, turned, {x, w}), expected, tolerance, "strided");
    }
  }
}

TEST(NpuMixture, AnExpertWithoutRowsHasNoGradient) {
  const Tensor ends = ends_of({2, 0, 3}).to(kNpu);
  const Result got =
      run_on(kNpu, [&](const Inputs& in) { return grouped_matmul(in[0], in[1], ends); },
             {seeded({5, 3}), seeded({3, 2, 3})});
  EXPECT_EQ(got.gradients[1][1].abs().max().item<double>(), 0);
  EXPECT_GT(got.gradients[1][2].abs().max().item<double>(), 0);
}

struct Sizes {
  int64_t tokens, top_k, experts, idle;
};
const std::vector<Sizes> kTokens = {{7, 2, 5, 0}, {6, 1, 4, 0}, {5, 3, 3, 0},
                                    {9, 2, 6, 3}, {1, 4, 4, 0}, {0, 2, 3, 0}};

TEST(NpuMixture, PermutationMatchesItsReference) {
  for (const auto& [dtype, tolerance] : kDtypes) {
    for (const auto& [tokens, top_k, count, idle] : kTokens) {
      SCOPED_TRACE(testing::Message()
                   << dtype << " " << tokens << " tokens, " << top_k << " of " << count);
      const int64_t k = top_k;
      const Tensor experts = seeded_experts(tokens, k, count, idle), on_npu = experts.to(kNpu);
      const Tensor x = seeded({tokens, 6}, dtype), rows = seeded({tokens * k, 6}, dtype, 2);
      const Tensor weights = seeded({tokens, k}, at::kFloat, 3);
      const auto right = reference::permute_tokens(x, experts);
      const Tensor position = permute_tokens(x.to(kNpu), on_npu).position;
      EXPECT_TRUE(at::equal(position.cpu(), right.position));
      EXPECT_TRUE(at::equal(count_tokens(on_npu, count).cpu(), count_tokens(experts, count)));
      const auto compare = [&](const char* what, const Function& f, const Function& plain,
                               const Inputs& inputs) {
        expect_close(run_on(kNpu, f, inputs), run_on(at::kCPU, plain, inputs), tolerance, what);
      };
      compare(
          "permute", [&](const Inputs& in) { return permute_tokens(in[0], on_npu).rows; },
          [&](const Inputs& in) { return reference::permute_tokens(in[0], experts).rows; }, {x});
      compare(
          "permute, strided",
          [&](const Inputs& in) { return permute_tokens(in[0].t().contiguous().t(), on_npu).rows; },
          [&](const Inputs& in) { return reference::permute_tokens(in[0], experts).rows; }, {x});
      compare(
          "unpermute",
          [&](const Inputs& in) { return unpermute_tokens(in[0], position, k, in[1]); },
          [&](const Inputs& in) {
            return reference::unpermute_tokens(in[0], right.position, k, in[1]);
          },
          {rows, weights});
      compare(
          "unpermute, strided",
          [&](const Inputs& in) {
            return unpermute_tokens(in[0].t().contiguous().t(), position, k,
                                    in[1].t().contiguous().t());
          },
          [&](const Inputs& in) {
            return reference::unpermute_tokens(in[0], right.position, k, in[1]);
          },
          {rows, weights});
      compare(
          "unpermute, no weights",
          [&](const Inputs& in) { return unpermute_tokens(in[0], position, k); },
          [&](const Inputs& in) { return reference::unpermute_tokens(in[0], right.position, k); },
          {rows});
      compare(
          "weights", [&](const Inputs& in) { return permute_weights(in[0], position); },
          [&](const Inputs& in) { return permute_weights(in[0], right.position); }, {weights});
    }
  }
}

std::optional<Tensor> bias_of(const NamedRule& test, at::Device device) {
  if (!test.biased) return std::nullopt;
  return (seeded({test.experts}, at::kFloat, 4) / 4).to(device);
}

TEST(NpuMixture, ChoiceMatchesItsReference) {
  for (const auto& [dtype, tolerance] : kDtypes) {
    for (const auto& test : rules()) {
      for (const int64_t tokens : {9, 1, 0}) {
        const Tensor logits = seeded({tokens, test.experts}, dtype);
        const std::string what = std::string(test.name) + " in " + c10::toString(dtype);
        const auto by = [&](bool plain) -> Function {
          return [&, plain](const Inputs& in) {
            const auto bias = bias_of(test, in[0].device());
            return all_weights(plain ? reference::choose_experts(in[0], bias, test.rule)
                                     : choose_experts(in[0], bias, test.rule),
                               test.experts);
          };
        };
        const uint64_t before = launches("aclnnMoeGatingTopK");
        expect_close(run_on(kNpu, by(false), {logits}), run_on(at::kCPU, by(true), {logits}),
                     tolerance, what.c_str());
        // Groups of two are too small for the chips' kernel.
        const bool fused = tokens > 0 && std::string_view(test.name) != "groups of two";
        EXPECT_EQ(launches("aclnnMoeGatingTopK") - before, fused ? 1u : 0u) << what;
      }
    }
  }
}

TEST(NpuMixture, OfEqualScoresTheFirstExpertsAreTaken) {
  for (const auto& test : rules()) {
    const Tensor logits = at::full({2, test.experts}, 0.25).to(kNpu);
    const Tensor experts = choose_experts(logits, std::nullopt, test.rule).experts.cpu();
    EXPECT_TRUE(at::equal(experts[0], at::arange(test.rule.top_k))) << test.name;
    EXPECT_TRUE(at::equal(experts[1], experts[0])) << test.name;
  }
}

// The layer: x [N, D], the gate [E, D], gate, up [E, H, D] and down [E, D, H] of the experts.
// `before`: weights are factors of what goes into the experts, not of what comes out.
Tensor mixture(const Inputs& in, const ChoiceRule& rule, bool before) {
  const Tensor& x = in[0];
  const auto choice = choose_experts(at::linear(x, in[1]), std::nullopt, rule);
  const auto [sorted, position] = permute_tokens(x, choice.experts);
  const Tensor ends = count_tokens(choice.experts, in[1].size(0)).cumsum(0);
  Tensor rows = sorted;
  if (before) {
    const Tensor weights = permute_weights(choice.weights, position).unsqueeze(1);
    rows = (rows * weights).to(x.scalar_type());
  }
  const Tensor wide = swiglu(grouped_matmul(rows, in[2], ends), grouped_matmul(rows, in[3], ends));
  const Tensor out = grouped_matmul(wide, in[4], ends);
  if (before) return unpermute_tokens(out, position, rule.top_k);
  return unpermute_tokens(out, position, rule.top_k, choice.weights);
}

// The same by one expert after the other.
Tensor plain_mixture(const Inputs& in, const ChoiceRule& rule, bool before) {
  const Tensor& x = in[0];
  const auto choice = reference::choose_experts(at::linear(x, in[1]), std::nullopt, rule);
  const Tensor weights = all_weights(choice, in[1].size(0));
  Tensor sum = at::zeros_like(x);
  for (int64_t e = 0; e < in[1].size(0); ++e) {
    const Tensor weight = weights.select(1, e).unsqueeze(1), rows = before ? x * weight : x;
    const Tensor out = at::linear(
        reference::swiglu(at::linear(rows, in[2][e]), at::linear(rows, in[3][e])), in[4][e]);
    sum = sum + (before ? out : out * weight);
  }
  return sum;
}

TEST(NpuMixture, TheLayerIsTheSumOfItsExpertsAndTheHostNeverWaits) {
  constexpr int64_t kTokens = 11, kDim = 8, kHidden = 10, kExperts = 6;
  const Inputs values = {seeded({kTokens, kDim}), seeded({kExperts, kDim}, at::kFloat, 2),
                         seeded({kExperts, kHidden, kDim}, at::kFloat, 3),
                         seeded({kExperts, kHidden, kDim}, at::kFloat, 4),
                         seeded({kExperts, kDim, kHidden}, at::kFloat, 5)};
  for (const bool before : {false, true}) {
    for (const ChoiceRule& rule :
         {ChoiceRule{.top_k = 2, .normalize = true}, ChoiceRule{.top_k = 1},
          ChoiceRule{.top_k = kExperts, .scoring = Scoring::kSigmoid},
          ChoiceRule{.top_k = 3, .scoring = Scoring::kSigmoid, .normalize = true, .scale = 2.5}}) {
      const Function f = [&](const Inputs& in) { return mixture(in, rule, before); };
      const Function plain = [&](const Inputs& in) { return plain_mixture(in, rule, before); };
      const Result expected = run(plain, values);
      expect_close(run(f, values), expected, 5e-6, "on the CPU");
      expect_close(run_on(kNpu, f, values), expected, 2e-5, "on the NPU");

      Inputs leaves;
      for (const auto& value : values) leaves.push_back(value.to(kNpu).requires_grad_());
      const Tensor grad = at::ones({kTokens, kDim}, at::TensorOptions(kNpu));
      const uint64_t waited = waits();
      f(leaves).backward(grad);
      EXPECT_EQ(waits(), waited) << "the host waited";
    }
  }
}

}  // namespace
}  // namespace titan::ops
