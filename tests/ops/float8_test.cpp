// Linear layers in emulated float8: against torchao (tests/golden/float8.safetensors, written by
// tools/make_float8_goldens.py), and what only the maths says.
#include <gtest/gtest.h>

#include "checkpoint/safetensors.h"
#include "checks.h"
#include "ops/cross_entropy.h"
#include "ops/deferred.h"
#include "ops/linear.h"
#include "support/hash.h"

namespace titan::ops {
namespace {

using at::Tensor;

constexpr Float8Recipe kTensorwise{.emulate = true};
constexpr Float8Recipe kRowwise{.scaling = Float8Scaling::kRowwise, .emulate = true};
constexpr Float8Recipe kWideGradient{.scaling = Float8Scaling::kRowwiseWithWideWeightGradient,
                                     .emulate = true};
constexpr std::pair<const char*, Float8Recipe> kRecipes[] = {
    {"tensorwise", kTensorwise}, {"rowwise", kRowwise}, {"rowwise_with_gw_hp", kWideGradient}};

// As the script that writes the goldens makes it: magnitudes differ by row and by column.
Tensor matrix(int64_t rows, int64_t columns, uint32_t salt) {
  Tensor result = at::empty({rows, columns}, at::kFloat);
  auto values = result.accessor<float, 2>();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      values[r][c] = static_cast<float>(centred(static_cast<uint32_t>(r * columns + c), salt) *
                                        std::exp2(r % 5 - c % 3));
    }
  }
  return result;
}

struct Layer {
  Tensor y, dx, dw;
};

Layer layer_of(const Tensor& x_in, const Tensor& w_in, const Tensor& dy,
               const std::optional<Float8Recipe>& recipe) {
  const Tensor x = x_in.detach().set_requires_grad(true), w = w_in.detach().set_requires_grad(true);
  const Tensor y = linear(x, w, Replay::kOutputNeeded, recipe);
  y.backward(dy);
  return {y.detach(), x.grad(), w.grad()};
}

TEST(Float8, EqualsTorchao) {
  const checkpoint::SafetensorsFile golden(TITAN_SOURCE_DIR "/tests/golden/float8.safetensors");
  const Tensor x = matrix(32, 48, 1), w = matrix(16, 48, 2), dy = matrix(32, 16, 3);
  for (const auto& [name, recipe] : kRecipes) {
    const Layer got = layer_of(x, w, dy, recipe);
    const auto expect = [&](const char* what, const Tensor& value) {
      EXPECT_LE(distance(value, golden.view(std::string(name) + "." + what)), 1e-6)
          << name << ", " << what;
    };
    expect("y", got.y);
    expect("dx", got.dx);
    expect("dw", got.dw);
  }
}

TEST(Float8, NumbersOfTheFormatStayThemselves) {
  // Small integers with the largest number of each format: every scale is 1.
  Tensor x = at::tensor({448., 1., -2., 3.}, at::kDouble).view({2, 2});
  const Tensor w = at::tensor({448., 0.5, -1., 448.}, at::kDouble).view({2, 2});
  const Tensor dy = at::tensor({57344., 4., -1., 0.25}, at::kDouble).view({2, 2});
  const Layer got = layer_of(x, w, dy, kTensorwise), want = layer_of(x, w, dy, std::nullopt);
  EXPECT_TRUE(at::equal(got.y, want.y));
  EXPECT_TRUE(at::equal(got.dx, want.dx));
  EXPECT_TRUE(at::equal(got.dw, want.dw));
}

TEST(Float8, ZerosAndOneLargeValue) {
  const Tensor zeros = at::zeros({16, 16}), dy = seeded({16, 16});
  for (const auto& [name, recipe] : kRecipes) {
    const Layer got = layer_of(zeros, zeros, dy, recipe);
    for (const Tensor& t : {got.y, got.dx, got.dw}) EXPECT_TRUE(at::equal(t, zeros)) << name;
    // The largest magnitude is met, not exceeded: no infinity, no NaN.
    const Tensor large = at::full({16, 16}, 1e30);
    EXPECT_TRUE(at::isfinite(layer_of(large, dy, dy, recipe).y).all().item<bool>()) << name;
  }
}

TEST(Float8, IsCloseToTheWideLayerAndNotEqual) {
  const Tensor x = seeded({2, 24, 48}), w = seeded({32, 48}, at::kFloat, 2),
               dy = seeded({2, 24, 32}, at::kFloat, 3);
  const Layer want = layer_of(x, w, dy, std::nullopt);
  const auto off = [](const Tensor& a, const Tensor& b) {
    return ((a - b).norm() / b.norm()).item<double>();
  };
  for (const auto& [name, recipe] : kRecipes) {
    const Layer got = layer_of(x, w, dy, recipe);
    const bool wide_gradient = recipe == kWideGradient;
    EXPECT_LT(off(got.y, want.y), 0.06) << name;
    EXPECT_GT(off(got.y, want.y), 1e-3) << name;
    EXPECT_LT(off(got.dx, want.dx), 0.12) << name;  // two bits of mantissa in gradients
    EXPECT_GT(off(got.dx, want.dx), 1e-3) << name;
    EXPECT_EQ(at::equal(got.dw, want.dw), wide_gradient) << name;
    EXPECT_LT(off(got.dw, want.dw), 0.12) << name;
  }
}

TEST(Float8, RowScalesKeepSmallRows) {
  // One row 2^20 times the others: with one scale the others fall below the smallest number.
  Tensor x = seeded({16, 32});
  x[3].mul_(1 << 20);
  const Tensor w = seeded({16, 32}, at::kFloat, 2), dy = seeded({16, 16}, at::kFloat, 3);
  const Tensor want = layer_of(x, w, dy, std::nullopt).y[5];
  const auto off = [&](const Float8Recipe& recipe) {
    const Tensor got = layer_of(x, w, dy, recipe).y[5];
    return ((got - want).norm() / want.norm()).item<double>();
  };
  EXPECT_LT(off(kRowwise), 0.08);
  EXPECT_GT(off(kTensorwise), 0.9);
}

class ListedGradients : public WeightGradientSink {
 public:
  std::function<void(const Tensor&)> sink_of(const Tensor&) override {
    return [this](const Tensor& gradient) { gradients.push_back(gradient); };
  }
  std::vector<Tensor> gradients;
};

TEST(Float8, WeightGradientsThatArePutOffAreTheSame) {
  const Tensor x_in = matrix(32, 48, 1), w_in = matrix(16, 48, 2), dy = matrix(32, 16, 3);
  for (const auto& [name, recipe] : kRecipes) {
    const Layer want = layer_of(x_in, w_in, dy, recipe);
    DeferredGradients queue;
    ListedGradients sink;
    const DeferGradients deferred(&queue, &sink);
    const Tensor x = x_in.detach().set_requires_grad(true),
                 w = w_in.detach().set_requires_grad(true);
    linear(x, w, Replay::kOutputNeeded, recipe).backward(dy);
    EXPECT_TRUE(sink.gradients.empty());
    ASSERT_EQ(queue.size(), 1u) << name;
    queue.front()();
    ASSERT_EQ(sink.gradients.size(), 1u);
    EXPECT_TRUE(at::equal(sink.gradients[0], want.dw)) << name;
    EXPECT_TRUE(at::equal(x.grad(), want.dx)) << name;
    EXPECT_FALSE(w.grad().defined());
  }
}

TEST(Float8, TheOutputLayerFollowsTheWideOne) {
  const Tensor labels = at::randint(64, {48}, at::kLong);
  const auto loss = [&](const std::optional<Float8Recipe>& recipe, int64_t chunk) {
    return run(
        [&](const Inputs& in) {
          return linear_cross_entropy(in[0], in[1], labels, at::full({}, 1.0 / 48), chunk, recipe);
        },
        {seeded({48, 32}), seeded({64, 32}, at::kFloat, 2).mul(0.2)});
  };
  const Result want = loss(std::nullopt, 0);
  for (const auto& [name, recipe] : kRecipes) {
    for (const int64_t chunk : {0, 16}) {
      const Result got = loss(recipe, chunk);
      EXPECT_NEAR(got.output.item<double>(), want.output.item<double>(), 0.02) << name;
      EXPECT_NE(got.output.item<double>(), want.output.item<double>()) << name;
      EXPECT_LT(distance(got.gradients[0], want.gradients[0]), 0.15) << name;
      EXPECT_LT(distance(got.gradients[1], want.gradients[1]), 0.15) << name;
    }
  }
}

}  // namespace
}  // namespace titan::ops
