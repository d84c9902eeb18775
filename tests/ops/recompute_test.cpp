#include "ops/recompute.h"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "ops/attention.h"
#include "ops/checks.h"
#include "ops/linear.h"
#include "ops/live_bytes.h"
#include "ops/rms_norm.h"
#include "ops/swiglu.h"

namespace titan::ops {
namespace {

using testing::HasSubstr;

using Body = std::function<at::Tensor(const at::Tensor&)>;

class Recompute : public testing::Test {
 protected:
  void SetUp() override { install_saved_tensor_hooks(); }
};

// One attention and one feed-forward half over [B, T, 16], weights as leaves.
struct Block {
  at::Tensor norm = seeded({16}, at::kFloat, 1).set_requires_grad(true);
  at::Tensor wqkv = (seeded({48, 16}, at::kFloat, 2) * 0.2).set_requires_grad(true);
  at::Tensor wo = (seeded({16, 16}, at::kFloat, 3) * 0.2).set_requires_grad(true);
  at::Tensor w13 = (seeded({128, 16}, at::kFloat, 4) * 0.2).set_requires_grad(true);
  at::Tensor w2 = (seeded({16, 64}, at::kFloat, 5) * 0.2).set_requires_grad(true);

  at::Tensor operator()(const at::Tensor& x) const {
    const int64_t b = x.size(0), t = x.size(1);
    const auto qkv = ops::linear(rms_norm(x, norm, 1e-5), wqkv, Replay::kInputOfKept)
                         .view({b, t, 3, 2, 8})
                         .unbind(2);
    const auto y =
        attention(qkv[0].transpose(1, 2), qkv[1].transpose(1, 2), qkv[2].transpose(1, 2));
    const auto h = x + ops::linear(y.transpose(1, 2).flatten(2), wo);
    const auto halves = ops::linear(rms_norm(h, norm, 1e-5), w13).chunk(2, -1);
    return h + ops::linear(swiglu(halves[0], halves[1]), w2, Replay::kOutputUnused);
  }
  std::vector<at::Tensor> weights() const { return {norm, wqkv, wo, w13, w2}; }
};

struct Walk {
  at::Tensor output;
  std::vector<at::Tensor> gradients;
  int64_t held_bytes = 0;  // between forward and backward, output included
};

// Three blocks in a row.
Walk walk(const std::optional<Kept>& kept) {
  const Block block;
  auto x = seeded({2, 64, 16}, at::kFloat, 9).set_requires_grad(true);
  Walk result;
  {
    const LiveBytes bytes;
    at::Tensor y = x;
    for (int i = 0; i < 3; ++i)
      y = kept ? recompute([&](const at::Tensor& in) { return block(in); }, y, *kept) : block(y);
    result.held_bytes = bytes.now();
    y.sum().backward();
    result.output = y.detach();
  }
  result.gradients.push_back(x.grad());
  for (const auto& weight : block.weights()) result.gradients.push_back(weight.grad());
  return result;
}

TEST_F(Recompute, IsBitEqualToKeepingEverything) {
  const Walk kept = walk(std::nullopt);
  for (const auto mode : {Kept::kNothing, Kept::kExpensive}) {
    const Walk again = walk(mode);
    EXPECT_TRUE(at::equal(again.output, kept.output));
    ASSERT_EQ(again.gradients.size(), kept.gradients.size());
    for (size_t i = 0; i < kept.gradients.size(); ++i)
      EXPECT_TRUE(at::equal(again.gradients[i], kept.gradients[i])) << i;
  }
}

TEST_F(Recompute, HoldsLessMemory) {
  const int64_t all = walk(std::nullopt).held_bytes;
  const int64_t expensive = walk(Kept::kExpensive).held_bytes;
  const int64_t nothing = walk(Kept::kNothing).held_bytes;
  const int64_t row_bytes = 2 * 64 * 16 * 4;
  // Nothing but the three blocks' outputs and small change.
  EXPECT_LE(nothing, 4 * row_bytes);
  EXPECT_LT(expensive, all * 8 / 10);
  EXPECT_GT(expensive, nothing);
}

TEST_F(Recompute, GivesMemoryBackAfterTheBackwardPass) {
  const LiveBytes bytes;
  {
    auto x = seeded({2, 64, 16}).set_requires_grad(true);
    const Block block;
    recompute([&](const at::Tensor& in) { return block(in); }, x, Kept::kExpensive)
        .sum()
        .backward();
  }
  EXPECT_EQ(bytes.now(), 0);
}

TEST_F(Recompute, RunsTheBodyTwiceAndOnlyWhenItIsNeeded) {
  int runs = 0;
  const Body body = [&](const at::Tensor& x) {
    ++runs;
    return x * x.exp();
  };
  auto x = seeded({5}).set_requires_grad(true);
  const auto y = recompute(body, x, Kept::kNothing);
  EXPECT_EQ(runs, 1);
  y.sum().backward();
  EXPECT_EQ(runs, 2);
  {
    const at::AutoGradMode off(false);
    recompute(body, x, Kept::kNothing);
  }
  EXPECT_EQ(runs, 3);
}

// The message of what the backward pass throws when the second run is not the first one.
std::string complaint(const std::function<Body(int& run)>& make, Kept kept = Kept::kNothing) {
  int runs = 0;
  const Body inner = make(runs);
  auto x = seeded({4, 4}).set_requires_grad(true);
  const auto y = recompute(
      [&](const at::Tensor& in) {
        ++runs;
        return inner(in);
      },
      x, kept);
  try {
    y.sum().backward();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no complaint";
}

TEST_F(Recompute, RefusesABodyThatSavesMoreOrLessTheSecondTime) {
  EXPECT_THAT(complaint([](int& run) -> Body {
                return [&run](const at::Tensor& x) { return run == 1 ? x.exp() : x.exp().exp(); };
              }),
              HasSubstr("saved 2 tensors, its first run saved 1"));
  EXPECT_THAT(complaint([](int& run) -> Body {
                return [&run](const at::Tensor& x) { return run == 1 ? x.exp().exp() : x.exp(); };
              }),
              HasSubstr("saved 1 tensors, its first run saved 2"));
}

TEST_F(Recompute, RefusesABodyThatSavesAnotherSizeTheSecondTime) {
  EXPECT_THAT(complaint([](int& run) -> Body {
                return [&run](const at::Tensor& x) {
                  return run == 1 ? x.exp() : x.narrow(0, 0, 2).exp();
                };
              }),
              HasSubstr("has 8 elements, in its first run 16"));
}

TEST_F(Recompute, RefusesABodyThatKeepsMoreOrLessTheSecondTime) {
  const auto w = seeded({4, 4}).set_requires_grad(true);
  const auto chain = [w](const at::Tensor& x, int count) {
    at::Tensor y = x;
    for (int i = 0; i < count; ++i) y = ops::linear(y, w);
    return y;
  };
  EXPECT_THAT(complaint(
                  [&](int& run) -> Body {
                    return
                        [&run, chain](const at::Tensor& x) { return chain(x, run == 1 ? 1 : 2); };
                  },
                  Kept::kExpensive),
              HasSubstr("more kept outputs than the 1"));
  EXPECT_THAT(complaint(
                  [&](int& run) -> Body {
                    return
                        [&run, chain](const at::Tensor& x) { return chain(x, run == 1 ? 2 : 1); };
                  },
                  Kept::kExpensive),
              HasSubstr("its first run"));
}

TEST_F(Recompute, RefusesASecondBackwardPass) {
  auto x = seeded({4}).set_requires_grad(true);
  const auto y =
      recompute([](const at::Tensor& in) { return in.exp().exp(); }, x, Kept::kNothing).sum();
  y.backward({}, /*retain_graph=*/true);
  EXPECT_ANY_THROW(y.backward());
}

TEST_F(Recompute, DoesNotNest) {
  auto x = seeded({4}).set_requires_grad(true);
  const Body inner = [](const at::Tensor& in) { return in.exp(); };
  EXPECT_ANY_THROW(
      recompute([&](const at::Tensor& in) { return recompute(inner, in, Kept::kNothing); }, x,
                Kept::kNothing));
  // The failed region has left nothing behind.
  recompute(inner, x, Kept::kNothing).sum().backward();
  EXPECT_TRUE(at::allclose(x.grad(), x.detach().exp()));
}

TEST_F(Recompute, FailsForABodyThatIsNotPure) {
  // The mutation test of bit equality: a body whose second run differs gives other gradients.
  auto x = seeded({4}).set_requires_grad(true);
  int runs = 0;
  recompute([&](const at::Tensor& in) { return (in + static_cast<double>(runs++)).exp(); }, x,
            Kept::kNothing)
      .sum()
      .backward();
  EXPECT_FALSE(at::allclose(x.grad(), x.detach().exp()));
}

}  // namespace
}  // namespace titan::ops
