// The optimizers on an NPU against the same on the CPU.
#include <gtest/gtest.h>

#include <string>

#include "npu/npu.h"
#include "optim/adam.h"
#include "optim/loss_scale.h"

namespace titan::optim {
namespace {

using at::Tensor;
using ops::kNpu;
using ops::seeded;

// Parameters after three steps, on the CPU; `lr_on`: where the learning rate lies.
std::vector<Tensor> train(const std::string& name, at::Device device, bool overflow,
                          at::Device lr_on = at::kCPU) {
  config::Optimizer config;
  config.name = name;
  config.weight_decay = 0.1;
  std::vector<Tensor> leaves;
  std::vector<std::pair<std::string, Tensor>> named;
  for (const int64_t size : {3, 1, 8}) {
    leaves.push_back(
        seeded({size, 4}, at::kFloat, static_cast<uint64_t>(size)).to(device).requires_grad_());
    named.emplace_back(std::to_string(size), leaves.back());
  }
  Adam adam(config, named);
  const auto scalar = [](double value, at::Device where) {
    return at::full({}, value, at::TensorOptions(at::kFloat).device(where));
  };
  for (int step = 1; step <= 3; ++step) {
    for (auto& leaf : leaves) {
      leaf.mutable_grad() =
          seeded(leaf.sizes(), at::kFloat, static_cast<uint64_t>(step)).to(device);
    }
    EXPECT_GT(global_norm(adam.gradients()).item<double>(), 0);
    adam.step({.lr = scalar(0.01 * step, lr_on),
               .divisor = scalar(2.5, device),
               .found_inf = overflow ? scalar(step == 2, device) : Tensor()});
    adam.clear_gradients();
  }
  std::vector<Tensor> result;
  for (const auto& leaf : leaves) result.push_back(leaf.detach().cpu());
  return result;
}

TEST(NpuOptimizer, EqualsTheCpus) {
  for (const char* name : {"AdamW", "Adam"}) {
    for (const bool overflow : {false, true}) {
      const auto npu = train(name, kNpu, overflow), cpu = train(name, at::kCPU, overflow);
      const auto from_device = train(name, kNpu, overflow, kNpu);
      for (size_t i = 0; i < cpu.size(); ++i) {
        const auto what = std::string(name) + (overflow ? ", a step is skipped" : "");
        EXPECT_LE(ops::distance(npu[i], cpu[i]), 2e-6) << what;
        EXPECT_LE(ops::distance(from_device[i], cpu[i]), 2e-6) << what << ", rate on the device";
      }
    }
  }
}

TEST(NpuOptimizer, ASkippedStepIsNoticed) {
  const auto all = train("AdamW", kNpu, false), skipped = train("AdamW", kNpu, true);
  EXPECT_GT(ops::distance(all[0], skipped[0]), 1e-4);
}

// Falls, grows after a run of good steps, and stays where the next value would be infinite.
TEST(NpuOptimizer, TheLossScaleMovesAsOnTheCpu) {
  LossScale npu(true, kNpu), cpu(true, at::kCPU);
  const auto both = [&](double overflow) {
    const Tensor found = at::full({}, overflow, at::kFloat);
    npu.update(found.to(kNpu));
    cpu.update(found);
    EXPECT_EQ(npu.scale().item<float>(), cpu.scale().item<float>());
    EXPECT_EQ(npu.good_steps().item<int>(), cpu.good_steps().item<int>());
  };
  for (const double overflow : {1, 0, 0, 1, 1, 0}) both(overflow);
  EXPECT_EQ(npu.scale().item<float>(), 8192);
  for (const double scale : {512.0, 0x1p127}) {
    npu.restore(scale, 1998);
    cpu.restore(scale, 1998);
    for (int step = 0; step < 3; ++step) both(0);
    EXPECT_EQ(npu.scale().item<float>(), scale == 512 ? 1024 : scale);
  }
}

}  // namespace
}  // namespace titan::optim
