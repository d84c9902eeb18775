// The halves of a block on an NPU, each one function, against the separate references on the CPU.
#include <gtest/gtest.h>

#include <string>

#include "npu/npu.h"
#include "ops/attention.h"
#include "ops/block_halves.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/swiglu.h"

namespace titan::ops {
namespace {

using at::Tensor;

constexpr int64_t kDim = 12, kHead = 8, kHidden = 26, kBatch = 2;
constexpr double kEps = 1e-5;

struct Heads {
  int64_t heads, kv_heads, tokens;
  bool interleaved;
  bool own_positions = false;  // tables for each row of the batch
};

Tensor angles(const Heads& h) {
  return h.own_positions ? seeded({kBatch, h.tokens, kHead / 2}, at::kFloat, 7)
                         : seeded({h.tokens, kHead / 2}, at::kFloat, 7);
}

// in: x, norm, wq, wk, wv, w_out
Tensor fused_attention(const Heads& h, const Inputs& in) {
  const auto table = [&](const Tensor& t) {
    return rotary_table(t, h.interleaved, in[0].device());
  };
  return attention_half(in[0], {.norm = in[1],
                                .wq = in[2],
                                .wk = in[3],
                                .wv = in[4],
                                .w_out = in[5],
                                .cos = table(angles(h).cos()),
                                .sin = table(angles(h).sin()),
                                .heads = h.heads,
                                .kv_heads = h.kv_heads,
                                .head_dim = kHead,
                                .eps = kEps,
                                .interleaved_rope = h.interleaved});
}

Tensor plain_attention(const Heads& h, const Inputs& in) {
  const Tensor y = reference::rms_norm(in[0], in[1], kEps);
  const auto by_head = [&](const Tensor& w, int64_t heads) {
    return at::linear(y, w).view({kBatch, h.tokens, heads, kHead});
  };
  const auto turned = [&](const Tensor& x) {
    return reference::rope(x, angles(h).cos(), angles(h).sin(), h.interleaved).transpose(1, 2);
  };
  const Tensor seen =
      reference::attention(turned(by_head(in[2], h.heads)), turned(by_head(in[3], h.kv_heads)),
                           by_head(in[4], h.kv_heads).transpose(1, 2), std::nullopt);
  return in[0] + at::linear(seen.transpose(1, 2).flatten(2), in[5]);
}

Inputs attention_inputs(const Heads& h, at::ScalarType dtype) {
  const Inputs wide{seeded({kBatch, h.tokens, kDim}),
                    seeded({kDim}, at::kFloat, 2),
                    seeded({h.heads * kHead, kDim}, at::kFloat, 3),
                    seeded({h.kv_heads * kHead, kDim}, at::kFloat, 4),
                    seeded({h.kv_heads * kHead, kDim}, at::kFloat, 5),
                    seeded({kDim, h.heads * kHead}, at::kFloat, 6)};
  Inputs values;
  for (const auto& x : wide) values.push_back((x / 2).to(dtype));
  return values;
}

// in: x, norm, gate, up, down
Tensor fused_feed_forward(const Inputs& in) {
  return feed_forward_half(
      in[0], {.norm = in[1], .w_gate = in[2], .w_up = in[3], .w_down = in[4], .eps = kEps});
}

Tensor plain_feed_forward(const Inputs& in) {
  const Tensor y = reference::rms_norm(in[0], in[1], kEps);
  return in[0] + at::linear(reference::swiglu(at::linear(y, in[2]), at::linear(y, in[3])), in[4]);
}

const std::pair<at::ScalarType, double> kTolerances[] = {{at::kFloat, 1e-5}, {at::kBFloat16, 4e-2}};

TEST(NpuHalves, AttentionMatchesItsParts) {
  for (const auto& [dtype, tolerance] : kTolerances) {
    for (const Heads& h : {Heads{4, 4, 5, true}, Heads{4, 2, 9, false}, Heads{2, 1, 1, true},
                           Heads{4, 2, 6, true, /*own_positions=*/true}}) {
      const Inputs values = attention_inputs(h, dtype);
      const auto fused = [&](const Inputs& in) { return fused_attention(h, in); };
      const auto plain = [&](const Inputs& in) { return plain_attention(h, in); };
      const auto what = std::to_string(h.heads) + " heads, " + std::to_string(h.tokens) +
                        " tokens in " + c10::toString(dtype);
      expect_close(run_on(kNpu, fused, values), run_on(at::kCPU, plain, values), tolerance,
                   what.c_str());
    }
  }
}

TEST(NpuHalves, FeedForwardMatchesItsParts) {
  for (const auto& [dtype, tolerance] : kTolerances) {
    Inputs values;
    for (const auto& x :
         {seeded({kBatch, 5, kDim}), seeded({kDim}, at::kFloat, 2),
          seeded({kHidden, kDim}, at::kFloat, 3), seeded({kHidden, kDim}, at::kFloat, 4),
          seeded({kDim, kHidden}, at::kFloat, 5)}) {
      values.push_back((x / 2).to(dtype));
    }
    expect_close(run_on(kNpu, fused_feed_forward, values),
                 run_on(at::kCPU, plain_feed_forward, values), tolerance, c10::toString(dtype));
  }
}

// The tolerance would notice the other way to turn, and a gate in the place of up.
TEST(NpuHalves, DifferencesAreNoticed) {
  const Heads one{4, 4, 5, true}, other{4, 4, 5, false};
  const Inputs values = attention_inputs(one, at::kFloat);
  const Result right = run_on(
      at::kCPU, [&](const Inputs& in) { return plain_attention(one, in); }, values);
  const Result wrong = run_on(
      kNpu, [&](const Inputs& in) { return fused_attention(other, in); }, values);
  EXPECT_GT(distance(wrong.output, right.output), 1e-3);
  EXPECT_GT(distance(wrong.gradients[2], right.gradients[2]), 1e-3);
}

}  // namespace
}  // namespace titan::ops
