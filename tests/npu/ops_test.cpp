// Each op on an NPU against its reference on the CPU, forward and gradient.
#include <gtest/gtest.h>

#include <string>

#include "npu/npu.h"
#include "ops/attention.h"
#include "ops/cross_entropy.h"
#include "ops/linear.h"
#include "ops/npu_ops.h"
#include "ops/partial_attention.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/swiglu.h"

namespace titan::ops {
namespace {

using at::Tensor;

struct Case {
  std::string name;
  Function op, reference;
  Inputs inputs;
};

Tensor angles(int64_t tokens, int64_t half) { return seeded({tokens, half}, at::kFloat, 7); }

Case rope_case(bool interleaved, bool laid_out) {
  const Tensor turn = angles(5, 4);
  const auto table = [=](const Tensor& t, at::Device device) {
    return laid_out ? rotary_table(t, interleaved, device) : t.to(device);
  };
  return {
      std::string("rope ") + (interleaved ? "interleaved" : "halves") +
          (laid_out ? ", tables laid out" : ""),
      [=](const Inputs& in) {
        return rope(in[0], table(turn.cos(), in[0].device()), table(turn.sin(), in[0].device()),
                    interleaved);
      },
      [=](const Inputs& in) { return reference::rope(in[0], turn.cos(), turn.sin(), interleaved); },
      {seeded({2, 5, 3, 8})}};
}

Case attention_case(const char* name, int64_t heads, int64_t kv_heads, int64_t queries,
                    int64_t keys, const std::optional<Tensor>& mask) {
  const auto on = [=](at::Device device) {
    return mask ? std::optional<Tensor>(mask->to(device)) : std::nullopt;
  };
  // As the model hands them over: [B, T, heads, D] in memory.
  const auto values = [](int64_t h, int64_t t, uint64_t seed) {
    return seeded({2, t, h, 8}, at::kFloat, seed).transpose(1, 2);
  };
  return {name,
          [=](const Inputs& in) { return attention(in[0], in[1], in[2], on(in[0].device())); },
          [=](const Inputs& in) {
            const bool all = !mask && queries == 1;
            return reference::attention(
                in[0], in[1], in[2],
                all ? std::optional<Tensor>(at::ones({1, keys}, at::kBool)) : on(at::kCPU));
          },
          {values(heads, queries, 1), values(kv_heads, keys, 2), values(kv_heads, keys, 3)}};
}

Case loss_case(int64_t chunk) {
  const Tensor labels =
      at::tensor(std::vector<int64_t>{3, 0, kIgnoredLabel, 10, 5, 6, kIgnoredLabel});
  const Tensor scale = at::full({}, 0.2);
  return {"linear_cross_entropy, chunks of " + std::to_string(chunk),
          [=](const Inputs& in) {
            return linear_cross_entropy(in[0], in[1], labels.to(in[0].device()),
                                        scale.to(in[0].device()), chunk);
          },
          [=](const Inputs& in) {
            return reference::linear_cross_entropy(in[0], in[1], labels, scale);
          },
          {seeded({7, 6}), seeded({11, 6}, at::kFloat, 2)}};
}

std::vector<Case> cases() {
  const Tensor visible = at::ones({3, 6}, at::kBool).tril(3).expand({2, 1, 3, 6});
  std::vector<Case> list = {
      {"linear",
       [](const Inputs& in) { return ops::linear(in[0], in[1]); },
       [](const Inputs& in) { return at::matmul(in[0], in[1].t()); },
       {seeded({2, 3, 5}), seeded({7, 5}, at::kFloat, 2)}},
      {"rms_norm",
       [](const Inputs& in) { return rms_norm(in[0], in[1], 1e-5); },
       [](const Inputs& in) { return reference::rms_norm(in[0], in[1], 1e-5); },
       {seeded({2, 3, 13}), seeded({13}, at::kFloat, 2)}},
      {"rms_norm of heads",
       [](const Inputs& in) { return rms_norm(in[0], in[1], 1e-6); },
       [](const Inputs& in) { return reference::rms_norm(in[0], in[1], 1e-6); },
       {seeded({2, 3, 4, 6}), seeded({6}, at::kFloat, 2)}},
      {"swiglu",
       [](const Inputs& in) { return swiglu(in[0], in[1]); },
       [](const Inputs& in) { return reference::swiglu(in[0], in[1]); },
       {seeded({2, 3, 7}), seeded({2, 3, 7}, at::kFloat, 2)}},
      loss_case(0),
      loss_case(3),
      attention_case("attention, causal", 4, 4, 5, 5, std::nullopt),
      attention_case("attention, causal, grouped heads", 6, 2, 9, 9, std::nullopt),
      attention_case("attention, mask", 4, 2, 3, 6, visible),
      attention_case("attention, one token", 4, 2, 1, 6, std::nullopt),
  };
  for (const bool interleaved : {false, true}) {
    for (const bool laid_out : {false, true}) list.push_back(rope_case(interleaved, laid_out));
  }
  return list;
}

TEST(NpuOps, MatchTheirReferences) {
  for (const auto& [dtype, tolerance] :
       {std::pair(at::kFloat, 5e-6), std::pair(at::kBFloat16, 3e-2)}) {
    for (const auto& test : cases()) {
      Inputs values;
      for (const auto& value : test.inputs) values.push_back(value.to(dtype));
      const std::string what = test.name + " in " + c10::toString(dtype);
      expect_close(run_on(kNpu, test.op, values), run_on(at::kCPU, test.reference, values),
                   tolerance, what.c_str());
    }
  }
}

// The tolerance would notice a wrong formula: another epsilon, an angle of the other sign.
TEST(NpuOps, DifferencesAreNoticed) {
  const Inputs values = {seeded({2, 3, 13}), seeded({13}, at::kFloat, 2)};
  const auto with = [](double eps) {
    return [=](const Inputs& in) { return rms_norm(in[0], in[1], eps); };
  };
  const Result right = run_on(at::kCPU, with(1e-5), values);
  EXPECT_GT(distance(run_on(kNpu, with(1e-3), values).output, right.output), 5e-6);
  const Tensor turn = angles(5, 4), x = seeded({1, 5, 2, 8});
  const Tensor back = rope(x.to(kNpu), turn.cos().to(kNpu), turn.sin().neg().to(kNpu), true).cpu();
  EXPECT_GT(distance(back, reference::rope(x, turn.cos(), turn.sin(), true)), 1e-2);
}

// What context parallelism is made of: a part of the keys, forward and backward.
TEST(NpuOps, PartsOfAttentionMatchTheReference) {
  for (const bool causal : {false, true}) {
    const int64_t keys = causal ? 7 : 5;
    const Tensor q = seeded({2, 4, 7, 8}), k = seeded({2, 2, keys, 8}, at::kFloat, 2),
                 v = seeded({2, 2, keys, 8}, at::kFloat, 3),
                 grad = seeded({2, 4, 7, 8}, at::kFloat, 4);
    const Visibility see{.causal = causal};
    const auto part = partial_attention(q.to(kNpu), k.to(kNpu), v.to(kNpu), see);
    const auto expected = reference::partial_attention(q, k, v, see);
    EXPECT_LE(distance(part.out.cpu(), expected.out), 2e-6);
    EXPECT_LE(distance(part.logsumexp.cpu(), expected.logsumexp), 2e-6);
    // As a part of a larger softmax: its shares are smaller than alone.
    const Tensor whole = expected.logsumexp + 0.5;
    const auto gradients =
        partial_attention_backward(grad.to(kNpu), q.to(kNpu), k.to(kNpu), v.to(kNpu),
                                   expected.out.to(kNpu), whole.to(kNpu), see);
    const auto right =
        reference::partial_attention_backward(grad, q, k, v, expected.out, whole, see);
    EXPECT_LE(distance(gradients.q.cpu(), right.q), 5e-6);
    EXPECT_LE(distance(gradients.k.cpu(), right.k), 5e-6);
    EXPECT_LE(distance(gradients.v.cpu(), right.v), 5e-6);
  }
}

}  // namespace
}  // namespace titan::ops
