// The training step on tiny models: accumulation, clipping, loss scaling.
#include <gtest/gtest.h>

#include <cmath>

#include "models/tiny.h"
#include "support/tiny_args.h"
#include "train/assembly.h"
#include "train/step.h"

namespace titan::train {
namespace {

models::ModelArgs tiny() {
  auto args = models::tiny_llama3();
  args.num_layers = 2;
  return args;
}

TrainingState make_tiny(at::ScalarType stored, at::ScalarType compute, double max_norm = 0.5) {
  TrainingState state =
      assemble(tiny(), {}, {.parameter_dtype = stored, .compute_dtype = compute, .seed = 1});
  state.max_norm = max_norm;
  state.lr.fill_(0.01);
  return state;
}

// One step over `rows` cut into micro-batches of `part` rows.
StepResult step_over(TrainingState& state, const models::TinyBatch& batch, int64_t part,
                     double divisor = 0) {
  std::vector<MicroBatch> micro;
  for (int64_t row = 0; row < batch.inputs.size(0); row += part) {
    const int64_t count = std::min(part, batch.inputs.size(0) - row);
    micro.push_back({batch.inputs.narrow(0, row, count), batch.labels.narrow(0, row, count)});
  }
  state.inverse_valid_tokens.fill_(
      1.0 / (divisor > 0 ? divisor : static_cast<double>(batch.valid_tokens)));
  return train_step(state, micro);
}

// Eight rows, some of them padding: the third and fourth wholly, the last in part.
models::TinyBatch uneven(int64_t step) {
  auto batch = models::tiny_batch(8, 12, 40, step);
  batch.labels.narrow(0, 2, 2).fill_(-100);
  batch.labels[7].narrow(0, 1, 11).fill_(-100);
  batch.valid_tokens = batch.labels.ne(-100).sum().item<int64_t>();
  return batch;
}

std::vector<at::Tensor> parameters_of(TrainingState& state) {
  std::vector<at::Tensor> out;
  state.visit([&](const std::string&, at::Tensor& p, const nn::Init&) {
    out.push_back(p.detach().clone());
  });
  return out;
}

double largest_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, ((a[i] - b[i]).abs().max() / b[i].abs().max()).item<double>());
  }
  return worst;
}

TEST(TrainStep, MicroBatchesEqualOneBatchWithUnevenPadding) {
  for (const auto& [dtype, tolerance] : {std::pair{at::kDouble, 1e-11}, {at::kFloat, 1e-6}}) {
    for (const int64_t part : {1, 2, 3, 4}) {
      auto whole = make_tiny(dtype, dtype), parts = make_tiny(dtype, dtype);
      for (int64_t step = 1; step <= 20; ++step) {
        const auto a = step_over(whole, uneven(step), 8), b = step_over(parts, uneven(step), part);
        EXPECT_NEAR(b.loss.item<double>() / a.loss.item<double>(), 1, tolerance)
            << "step " << step << " part " << part;
        EXPECT_NEAR(b.grad_norm.item<double>() / a.grad_norm.item<double>(), 1, 20 * tolerance)
            << "step " << step;
      }
      if (dtype == at::kDouble) {
        EXPECT_LE(largest_difference(parameters_of(parts), parameters_of(whole)), 1e-11);
      }
    }
  }
}

TEST(TrainStep, AWrongDivisorIsSeen) {
  // The mutation of the test above: a mean per micro-batch instead of one over the step.
  auto whole = make_tiny(at::kDouble, at::kDouble), parts = make_tiny(at::kDouble, at::kDouble);
  const auto batch = uneven(1);
  const auto a = step_over(whole, batch, 8),
             b = step_over(parts, batch, 2, static_cast<double>(8 * 12));
  EXPECT_GT(std::abs(b.loss.item<double>() / a.loss.item<double>() - 1), 0.1);
}

TEST(TrainStep, LossIsTheMeanOverValidTokensAndNormIsBeforeClipping) {
  auto state = make_tiny(at::kDouble, at::kDouble, 1e9);
  const auto batch = uneven(2);
  const auto logits =
      at::matmul(state.stages[0].model->hidden(batch.inputs, *state.stages[0].runner),
                 state.stages[0].model->output_weight().t());
  const auto expected = at::cross_entropy_loss(logits.flatten(0, 1), batch.labels.flatten());
  expected.backward();
  double squares = 0;
  for (const auto& [name, gradient] : models::gradients_of(*state.stages[0].model))
    squares += gradient.square().sum().item<double>();
  state.optimizer->clear_gradients();
  const auto result = step_over(state, batch, 8);
  EXPECT_NEAR(result.loss.item<double>(), expected.item<double>(), 1e-12);
  EXPECT_NEAR(result.grad_norm.item<double>(), std::sqrt(squares), 1e-12);
  auto clipped = make_tiny(at::kDouble, at::kDouble, 1e-3);
  EXPECT_NEAR(step_over(clipped, batch, 8).grad_norm.item<double>(), std::sqrt(squares), 1e-12);
}

TEST(TrainStep, ClippingScalesTheGradientsByTheCoefficient) {
  // Adam's first moment after one step is 0.1 times the clipped gradient.
  const auto moments = [](double max_norm) {
    auto state = make_tiny(at::kDouble, at::kDouble, max_norm);
    const auto result = step_over(state, uneven(1), 8);
    std::vector<at::Tensor> out;
    state.optimizer->visit_state([&](const std::string& name, at::Tensor& t) {
      if (name.starts_with("exp_avg.")) out.push_back(t.clone());
    });
    return std::pair{out, result.grad_norm.item<double>()};
  };
  const auto [free, norm] = moments(1e9);
  auto [clipped, same_norm] = moments(norm / 3);
  EXPECT_EQ(norm, same_norm);
  const double coefficient = norm / 3 / (norm + 1e-6);
  for (auto& moment : clipped) moment /= coefficient;
  EXPECT_LE(largest_difference(clipped, free), 1e-12);
  // Below the limit nothing is scaled up.
  EXPECT_LE(largest_difference(moments(norm * 2).first, free), 1e-15);
}

TEST(TrainStep, Float16LearnsAsFloat32Does) {
  auto half = make_tiny(at::kFloat, at::kHalf, 1), single = make_tiny(at::kFloat, at::kFloat, 1);
  double first = 0, last_half = 0, last_single = 0;
  for (int64_t step = 1; step <= 60; ++step) {
    last_half = step_over(half, uneven(1), 4).loss.item<double>();
    last_single = step_over(single, uneven(1), 4).loss.item<double>();
    if (step == 1) {
      first = last_single;
      EXPECT_NEAR(last_half, last_single, 0.01);
    }
  }
  EXPECT_LT(last_single, first - 1.5);
  EXPECT_NEAR(last_half, last_single, 0.1);
  EXPECT_EQ(half.loss_scale.scale().item<float>(), 65536);
  EXPECT_EQ(half.loss_scale.good_steps().item<int32_t>(), 60);
}

TEST(TrainStep, Float16SkipsOverflowedStepsAndFindsItsScale) {
  auto state = make_tiny(at::kFloat, at::kHalf, 1);
  state.loss_scale.restore(65536.0 * 65536.0, 0);
  const auto before = parameters_of(state);
  int skipped = 0;
  for (int64_t step = 1; step <= 40; ++step) {
    const float scale = state.loss_scale.scale().item<float>();
    const auto result = step_over(state, uneven(1), 8);
    EXPECT_TRUE(result.loss.isfinite().item<bool>()) << "the scale must not reach the logged loss";
    if (!result.grad_norm.isfinite().item<bool>()) {
      EXPECT_EQ(state.loss_scale.scale().item<float>(), scale / 2);
      if (step == ++skipped) {
        EXPECT_EQ(largest_difference(parameters_of(state), before), 0) << "step " << step;
      }
    }
  }
  EXPECT_GT(skipped, 5);
  EXPECT_LT(skipped, 30);
  state.optimizer->visit_state([&](const std::string& name, at::Tensor& t) {
    if (name.starts_with("step.")) {
      EXPECT_EQ(t.item<double>(), 40 - skipped);
    }
  });
  EXPECT_GT(largest_difference(parameters_of(state), before), 0);
}

TEST(TrainStep, PureBfloat16KeepsItsDtypesAndLearns) {
  auto state = make_tiny(at::kBFloat16, at::kBFloat16, 1);
  double first = 0, last = 0;
  for (int64_t step = 1; step <= 60; ++step) {
    last = step_over(state, uneven(1), 4).loss.item<double>();
    if (step == 1) first = last;
  }
  EXPECT_LT(last, first - 1);
  for (const auto& p : parameters_of(state)) EXPECT_EQ(p.scalar_type(), at::kBFloat16);
  state.optimizer->visit_state([](const std::string& name, at::Tensor& t) {
    EXPECT_EQ(t.scalar_type(), name.starts_with("step.") ? at::kFloat : at::kBFloat16);
  });
}

}  // namespace
}  // namespace titan::train
