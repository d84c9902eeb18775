// titan against plain PyTorch: logits, loss, every gradient and a ten-step training curve of
// tests/golden/, which tools/make_goldens.py writes.
#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/safetensors.h"
#include "models/tiny.h"
#include "ops/cross_entropy.h"
#include "optim/adam.h"
#include "parallel/single_device.h"
#include "train/step.h"

namespace titan::models {
namespace {

struct Golden {
  explicit Golden(const std::string& name)
      : facts(nlohmann::json::parse(std::ifstream(folder() + name + ".json"))),
        tensors(folder() + name + ".safetensors"),
        args(tiny_args(facts.at("args"))) {}

  static std::string folder() { return TITAN_SOURCE_DIR "/tests/golden/"; }
  TinyBatch batch(int64_t step) const {
    return tiny_batch(facts.at("batch"), facts.at("time"), args.vocab_size, step);
  }
  // Packed documents: attention stays inside each and positions restart.
  nn::TokenPlaces places() const {
    const auto& described = facts.at("args");
    if (!described.contains("documents")) return {};
    std::vector<at::Tensor> rows;
    for (const std::vector<int64_t> row : described.at("documents")) {
      rows.push_back(at::tensor(row, at::kLong));
    }
    return train::DocumentRules{.mask = true, .reset_positions = true}.places(at::stack(rows));
  }

  nlohmann::json facts;
  checkpoint::SafetensorsFile tensors;
  ModelArgs args;
};

double distance(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return ((a.to(at::kDouble) - b.to(at::kDouble)).abs().max() / b.to(at::kDouble).abs().max())
      .item<double>();
}

class GoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTest, LogitsLossAndEveryGradient) {
  const Golden golden(GetParam());
  for (const auto& [dtype, tolerance] : {std::pair{at::kDouble, 1e-10}, {at::kFloat, 1e-5}}) {
    const auto model = tiny_model(golden.args, dtype);
    parallel::SingleDeviceRunner runner(dtype);
    const auto batch = golden.batch(1);
    const auto hidden = model->hidden(batch.inputs, runner, golden.places());
    const auto logits = at::matmul(hidden, model->output_weight().t());
    EXPECT_LE(distance(logits.detach(), golden.tensors.view("logits")), tolerance);

    const auto scale =
        at::full({}, 1.0 / static_cast<double>(batch.valid_tokens), at::TensorOptions(dtype));
    const auto loss = ops::linear_cross_entropy(hidden.flatten(0, 1), model->output_weight(),
                                                batch.labels.flatten(), scale);
    loss.backward();
    const double expected = golden.facts.at("loss_float64");
    EXPECT_NEAR(loss.item<double>() / expected, 1, dtype == at::kDouble ? 1e-12 : 1e-6);
    EXPECT_NEAR(golden.facts.at("loss_float32").get<double>() / expected, 1, 1e-6);
    size_t compared = 0;
    for (const auto& [name, gradient] : gradients_of(*model)) {
      EXPECT_LE(distance(gradient, golden.tensors.view("gradient." + name)), tolerance)
          << name << " in " << dtype;
      ++compared;
    }
    EXPECT_EQ(compared + 1, golden.tensors.tensors().size())
        << "a parameter without a golden gradient, or the reverse";
  }
}

train::TrainingState training_state(const Golden& golden, at::ScalarType dtype) {
  const auto& t = golden.facts.at("training");
  train::TrainingState state{.loss_scale = optim::LossScale(false, at::kCPU)};
  state.stages.push_back({0, models::ModelPart::whole(golden.args), tiny_model(golden.args, dtype),
                          std::make_unique<parallel::SingleDeviceRunner>(dtype)});
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  state.visit([&](const std::string& name, at::Tensor& p, const nn::Init&) {
    parameters.emplace_back(name, p);
  });
  state.optimizer =
      std::make_unique<optim::Adam>(config::Optimizer{.lr = t.at("lr"),
                                                      .beta1 = t.at("beta1"),
                                                      .beta2 = t.at("beta2"),
                                                      .eps = t.at("eps"),
                                                      .weight_decay = t.at("weight_decay")},
                                    std::move(parameters));
  state.schedule = optim::make_schedule({.warmup_steps = t.at("warmup_steps"),
                                         .decay_type = "cosine",
                                         .min_lr_factor = t.at("min_lr_factor")},
                                        golden.facts.at("steps"));
  state.peak_lr = t.at("lr");
  state.max_norm = t.at("max_norm");
  state.lr = at::zeros({}, at::TensorOptions(dtype));
  state.inverse_valid_tokens = at::zeros({}, at::TensorOptions(dtype));
  return state;
}

TEST_P(GoldenTest, TenStepTrainingCurve) {
  const Golden golden(GetParam());
  for (const auto& [dtype, key, tolerance] :
       {std::tuple{at::kDouble, "curve_float64", 1e-10}, {at::kFloat, "curve_float32", 1e-6}}) {
    auto state = training_state(golden, dtype);
    int64_t step = 0;
    for (const auto& row : golden.facts.at(key)) {
      ++step;
      const auto batch = golden.batch(step);
      const double lr = state.peak_lr * state.schedule.factor(step);
      EXPECT_NEAR(lr / row.at("lr").get<double>(), 1, 1e-14);
      state.lr.fill_(lr);
      state.inverse_valid_tokens.fill_(1.0 / static_cast<double>(batch.valid_tokens));
      const train::MicroBatch micro{batch.inputs, batch.labels, golden.places()};
      const auto result = train::train_step(state, {&micro, 1});
      EXPECT_NEAR(result.loss.item<double>() / row.at("loss").get<double>(), 1, tolerance)
          << key << " step " << step;
      // The norm sees rounding before the loss does.
      EXPECT_NEAR(result.grad_norm.item<double>() / row.at("grad_norm").get<double>(), 1,
                  10 * tolerance)
          << key << " step " << step;
    }
    EXPECT_EQ(step, 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest,
                         testing::Values("llama3", "llama2", "qwen3", "llama2_documents"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace titan::models
