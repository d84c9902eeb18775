#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <cmath>

#include "base/error.h"
#include "optim/adam.h"
#include "optim/loss_scale.h"
#include "optim/schedule.h"

namespace titan::optim {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Python's round(x / y * …) on whole results: halves go to the even neighbour.
int64_t round_half_even(double x) {
  const double floor = std::floor(x);
  const double rest = x - floor;
  if (rest != 0.5) return static_cast<int64_t>(rest < 0.5 ? floor : floor + 1);
  return static_cast<int64_t>(std::fmod(floor, 2) == 0 ? floor : floor + 1);
}

// The schedule as the peers' documentation states it, for the step numbered from 1.
double stated_factor(const config::LrScheduler& c, int64_t steps, int64_t step) {
  const int64_t total = c.total_steps.value_or(steps);
  const int64_t warmup = std::min(c.warmup_steps, total);
  int64_t decay = total - warmup;
  if (c.decay_ratio)
    decay = std::min(round_half_even(static_cast<double>(total) * *c.decay_ratio), total - warmup);
  const int64_t stable = total + 1 - warmup - decay;
  const int64_t n = step - 1;
  if (n < warmup) return static_cast<double>(n + 1) / static_cast<double>(warmup);
  if (n < warmup + stable) return 1;
  const double p = static_cast<double>(n + 1 - warmup - stable) / static_cast<double>(decay);
  double f = 1 - p;
  if (c.decay_type == "sqrt") f = 1 - std::sqrt(p);
  if (c.decay_type == "cosine") f = 0.5 * (1 + std::cos(M_PI * p));
  return c.min_lr_factor + (1 - c.min_lr_factor) * f;
}

TEST(Schedule, FollowsTheStatedFormula) {
  for (const char* type : {"linear", "sqrt", "cosine"}) {
    for (const int64_t steps : {1, 2, 3, 10, 25, 101}) {
      for (const int64_t warmup : {0, 1, 2, 10, 200}) {
        for (const double ratio : {-1.0, 0.0, 0.1, 0.25, 0.5, 0.8, 1.0}) {
          for (const double floor : {0.0, 0.1, 1.0}) {
            const config::LrScheduler c{
                .warmup_steps = warmup,
                .decay_ratio = ratio < 0 ? std::nullopt : std::optional(ratio),
                .decay_type = type,
                .min_lr_factor = floor};
            const Schedule schedule = make_schedule(c, steps);
            for (int64_t step = 1; step <= steps; ++step) {
              ASSERT_NEAR(schedule.factor(step), stated_factor(c, steps, step), 1e-12)
                  << type << " steps " << steps << " warmup " << warmup << " ratio " << ratio
                  << " step " << step;
            }
          }
        }
      }
    }
  }
}

TEST(Schedule, KnownCurves) {
  const auto curve = [](const config::LrScheduler& c, int64_t steps) {
    std::vector<double> out;
    for (int64_t step = 1; step <= steps; ++step)
      out.push_back(make_schedule(c, steps).factor(step));
    return out;
  };
  // The debug models': warm-up 2 of 10, decay over the last 80%.
  EXPECT_THAT(curve({.warmup_steps = 2, .decay_ratio = 0.8}, 10),
              testing::Pointwise(testing::DoubleNear(1e-15),
                                 {.5, 1., 1., .875, .75, .625, .5, .375, .25, .125}));
  EXPECT_THAT(
      curve({.warmup_steps = 1, .decay_type = "cosine", .min_lr_factor = 0.5}, 5),
      testing::Pointwise(testing::DoubleNear(1e-12), {1., 1., .5 + .25 * (1 + std::sqrt(.5)), .75,
                                                      .5 + .25 * (1 - std::sqrt(.5))}));
  // Half of 5 steps is 2.5: two decay, as 2 is even.
  EXPECT_THAT(curve({.warmup_steps = 0, .decay_ratio = 0.5}, 5),
              testing::ElementsAre(1, 1, 1, 1, .5));
}

TEST(Schedule, TotalStepsReplaceTheRunsLength) {
  const config::LrScheduler c{.warmup_steps = 2, .total_steps = 20};
  EXPECT_NEAR(make_schedule(c, 10).factor(10), stated_factor(c, 10, 10), 1e-15);
  // A run longer than its schedule stays at the end of it.
  const config::LrScheduler shorter{.warmup_steps = 2, .total_steps = 5};
  EXPECT_EQ(make_schedule(shorter, 10).factor(9), make_schedule(shorter, 10).factor(5));
  EXPECT_THAT([] { make_schedule({.decay_type = "expo"}, 5); },
              ThrowsMessage<Error>(HasSubstr("expo")));
}

// AdamW and Adam in plain double arithmetic.
struct Plain {
  bool decoupled;
  double b1, b2, eps, wd;
  std::vector<double> p, m, v;
  int64_t t = 0;

  void step(const std::vector<double>& gradient, double lr) {
    ++t;
    for (size_t i = 0; i < p.size(); ++i) {
      double g = gradient[i];
      if (decoupled) {
        p[i] -= lr * wd * p[i];
      } else {
        g += wd * p[i];
      }
      m[i] = b1 * m[i] + (1 - b1) * g;
      v[i] = b2 * v[i] + (1 - b2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(b1, t)), v_hat = v[i] / (1 - std::pow(b2, t));
      p[i] -= lr * m_hat / (std::sqrt(v_hat) + eps);
    }
  }
};

at::Tensor scalar(double value, at::ScalarType dtype) {
  return at::full({}, value, at::TensorOptions(dtype));
}

void set_gradient(at::Tensor& parameter, const std::vector<double>& gradient) {
  parameter.mutable_grad() = at::tensor(gradient, at::kDouble).to(parameter.scalar_type());
}

std::vector<double> gradient_of(int64_t step, size_t count) {
  std::vector<double> g;
  for (size_t i = 0; i < count; ++i)
    g.push_back(std::sin(static_cast<double>(step) * 1.7 + static_cast<double>(i)) *
                (i % 3 == 0 ? 1e-3 : 1));
  return g;
}

double difference(const at::Tensor& parameter, const std::vector<double>& expected) {
  return (parameter.detach().to(at::kDouble) - at::tensor(expected, at::kDouble))
      .abs()
      .max()
      .item<double>();
}

TEST(Adam, MatchesThePlainFormulas) {
  for (const char* name : {"AdamW", "Adam"}) {
    for (const auto& [dtype, tolerance] :
         {std::pair{at::kDouble, 1e-14}, {at::kFloat, 2e-6}, {at::kBFloat16, 0.05}}) {
      const config::Optimizer config{.name = name, .lr = 0.01, .weight_decay = 0.2};
      const size_t n = 37;
      Plain plain{std::string(name) == "AdamW",
                  0.9,
                  0.95,
                  1e-8,
                  0.2,
                  gradient_of(100, n),
                  std::vector<double>(n),
                  std::vector<double>(n)};
      at::Tensor parameter = at::tensor(plain.p, at::kDouble).to(dtype).set_requires_grad(true);
      Adam adam(config, {{"w", parameter}});
      const auto scalars = dtype == at::kDouble ? at::kDouble : at::kFloat;
      for (int64_t step = 1; step <= 20; ++step) {
        const double lr = 0.01 / static_cast<double>(step), divisor = step % 2 == 0 ? 4 : 1.25;
        auto g = gradient_of(step, n);
        set_gradient(parameter, g);
        adam.step({.lr = scalar(lr, scalars), .divisor = scalar(divisor, scalars)});
        for (auto& value : g) value /= divisor;
        plain.step(g, lr);
      }
      EXPECT_LE(difference(parameter, plain.p), tolerance) << name << " " << dtype;
      adam.visit_state([&](const std::string& state, at::Tensor& tensor) {
        if (state == "step.w") {
          EXPECT_EQ(tensor.item<double>(), 20);
        } else if (dtype != at::kBFloat16) {
          EXPECT_LE(difference(tensor, state == "exp_avg.w" ? plain.m : plain.v), tolerance)
              << state;
        }
      });
    }
  }
}

TEST(Adam, AdamAndAdamWDifferAndUnknownNamesAreRefused) {
  const auto after = [](const char* name) {
    at::Tensor p = at::ones({3}, at::kDouble).set_requires_grad(true);
    Adam adam({.name = name, .weight_decay = 0.5}, {{"w", p}});
    set_gradient(p, {1, 1, 1});
    adam.step({.lr = scalar(0.1, at::kDouble), .divisor = scalar(1, at::kDouble)});
    return p[0].item<double>();
  };
  EXPECT_NEAR(after("AdamW"), 1 - 0.05 - 0.1, 1e-7);
  EXPECT_NEAR(after("Adam"), 1 - 0.1, 1e-7);
  EXPECT_THAT([&] { after("SGD"); }, ThrowsMessage<Error>(HasSubstr("SGD")));
}

TEST(Adam, AnOverflowedStepChangesNothing) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    at::Tensor p = at::linspace(-1, 1, 9, dtype).set_requires_grad(true);
    Adam adam({}, {{"w", p}});
    const auto step = [&](double gradient, float found_inf) {
      set_gradient(p, std::vector<double>(9, gradient));
      adam.step({.lr = scalar(0.1, dtype),
                 .divisor = scalar(1, dtype),
                 .found_inf = scalar(found_inf, at::kFloat)});
    };
    const auto snapshot = [&] {
      std::vector<at::Tensor> out = {p.detach().clone()};
      adam.visit_state([&](const std::string&, at::Tensor& t) { out.push_back(t.clone()); });
      return out;
    };
    step(0.5, 0);
    const auto before = snapshot();
    step(INFINITY, 1);
    const auto after = snapshot();
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(at::equal(before[i], after[i])) << dtype << " " << i;
    step(0.5, 0);
    adam.visit_state([&](const std::string& name, at::Tensor& t) {
      if (name == "step.w") {
        EXPECT_EQ(t.item<double>(), 2);
      }
    });
    EXPECT_FALSE(at::equal(p.detach(), before[0]));
  }
}

TEST(Adam, AParameterWithoutGradientCountsAsZero) {
  at::Tensor used = at::ones({2}).set_requires_grad(true),
             idle = at::ones({2}).set_requires_grad(true);
  Adam adam({.weight_decay = 0.5}, {{"used", used}, {"idle", idle}});
  set_gradient(used, {1, 1});
  adam.step({.lr = scalar(0.1, at::kFloat), .divisor = scalar(1, at::kFloat)});
  EXPECT_NEAR(idle[0].item<double>(), 0.95, 1e-6);  // decayed, not moved
  adam.clear_gradients();
  EXPECT_FALSE(used.grad().defined());
}

TEST(GlobalNorm, IsTheNormOverAllGradientsInFloat32OrWider) {
  const std::vector<at::Tensor> parts = {at::full({3, 4}, 2.0), at::full({5}, -1.0),
                                         at::zeros({1})};
  EXPECT_NEAR(global_norm(parts).item<double>(), std::sqrt(12 * 4 + 5.0), 1e-6);
  std::vector<at::Tensor> half;
  for (const auto& part : parts) half.push_back((part * 1000).to(at::kBFloat16));
  EXPECT_EQ(global_norm(half).scalar_type(), at::kFloat);
  EXPECT_NEAR(global_norm(half).item<double>(), 1000 * std::sqrt(53.0), 40);
  EXPECT_EQ(global_norm({at::ones({4}, at::kDouble)}).scalar_type(), at::kDouble);
  EXPECT_TRUE(std::isnan(global_norm({at::full({2}, NAN), at::ones({2})}).item<double>()));
  // A bfloat16 sum of 70,000 squares would stop at 256.
  EXPECT_NEAR(global_norm({at::ones({70000}, at::kBFloat16)}).item<double>(), std::sqrt(70000.0),
              0.1);
}

TEST(LossScale, HalvesOnOverflowAndDoublesAfterARunOfGoodSteps) {
  LossScale scale(true, at::kCPU);
  const auto good = scalar(0, at::kFloat), bad = scalar(1, at::kFloat);
  EXPECT_EQ(scale.scale().item<float>(), 65536);
  scale.update(bad);
  EXPECT_EQ(scale.scale().item<float>(), 32768);
  EXPECT_EQ(scale.good_steps().item<int32_t>(), 0);
  for (int i = 0; i < 1999; ++i) scale.update(good);
  EXPECT_EQ(scale.scale().item<float>(), 32768);
  EXPECT_EQ(scale.good_steps().item<int32_t>(), 1999);
  scale.update(good);
  EXPECT_EQ(scale.scale().item<float>(), 65536);
  EXPECT_EQ(scale.good_steps().item<int32_t>(), 0);
  scale.update(good);
  scale.update(bad);
  EXPECT_EQ(scale.good_steps().item<int32_t>(), 0);
  scale.restore(1024, 77);
  EXPECT_EQ(scale.scale().item<float>(), 1024);
  EXPECT_EQ(scale.good_steps().item<int32_t>(), 77);
}

TEST(LossScale, AFixedScaleStaysOne) {
  LossScale scale(false, at::kCPU);
  scale.update(scalar(1, at::kFloat));
  scale.restore(1024, 5);
  EXPECT_EQ(scale.scale().item<float>(), 1);
}

}  // namespace
}  // namespace titan::optim
