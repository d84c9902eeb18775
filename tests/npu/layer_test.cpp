// A Llama layer forward and backward on an NPU from unfused operators: captured_test.py counts its
// launches and holds the model's against them.
#include <gtest/gtest.h>

#include "npu/npu.h"
#include "ops/attention.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/swiglu.h"

namespace titan::ops {
namespace {

using at::Tensor;

TEST(NpuLayer, Unfused) {
  constexpr int64_t kBatch = 2, kTokens = 24, kDim = 16, kHeads = 4, kKvHeads = 2, kHead = 4,
                    kHidden = 26;
  uint64_t seed = 1;
  const auto leaf = [&](at::IntArrayRef shape) {
    return (seeded(shape, at::kFloat, seed++) / 4).to(kNpu).requires_grad_();
  };
  const Tensor x = leaf({kBatch, kTokens, kDim}), norm1 = leaf({kDim}), norm2 = leaf({kDim});
  const Tensor wq = leaf({kHeads * kHead, kDim}), wk = leaf({kKvHeads * kHead, kDim}),
               wv = leaf({kKvHeads * kHead, kDim}), wo = leaf({kDim, kHeads * kHead});
  const Tensor gate = leaf({kHidden, kDim}), up = leaf({kHidden, kDim}),
               down = leaf({kDim, kHidden});
  const Tensor angle = seeded({kTokens, kHead / 2}, at::kFloat, 7);
  const Tensor cos = angle.cos().to(kNpu), sin = angle.sin().to(kNpu);

  const Tensor normed = reference::rms_norm(x, norm1, 1e-5);
  const auto heads = [&](const Tensor& weight, int64_t count) {
    return at::linear(normed, weight).view({kBatch, kTokens, count, kHead});
  };
  const Tensor q = reference::rope(heads(wq, kHeads), cos, sin, true);
  const Tensor k = reference::rope(heads(wk, kKvHeads), cos, sin, true);
  const Tensor seen = reference::attention(q.transpose(1, 2), k.transpose(1, 2),
                                           heads(wv, kKvHeads).transpose(1, 2));
  const Tensor h = x + at::linear(seen.transpose(1, 2).flatten(2), wo);
  const Tensor wide = reference::rms_norm(h, norm2, 1e-5);
  const Tensor out =
      h + at::linear(reference::swiglu(at::linear(wide, gate), at::linear(wide, up)), down);
  out.backward(at::ones_like(out));
  EXPECT_TRUE(x.grad().cpu().isfinite().all().item<bool>());
  EXPECT_GT(wq.grad().cpu().norm().item<double>(), 0);
}

}  // namespace
}  // namespace titan::ops
