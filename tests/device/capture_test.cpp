// Captured steps with FSDP's collectives and recomputation on a GPU. Skipped without one.
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "device/registry.h"
#include "ops/recompute.h"
#include "train/assembly.h"
#include "train/captured_step.h"

namespace titan::train {
namespace {

models::ModelArgs small() {
  return {.family = "llama3",
          .flavor = "small",
          .dim = 128,
          .num_layers = 3,
          .num_heads = 4,
          .num_kv_heads = 2,
          .head_dim = 32,
          .hidden_dim = 256,
          .vocab_size = 512,
          .max_seq_len = 64,
          .rope_theta = 10000};
}

comm::Mesh sharded_mesh() {
  comm::Mesh mesh;
  auto options = c10d::ProcessGroupNCCL::Options::create();
  mesh.fsdp = comm::Group("fsdp",
                          c10::make_intrusive<c10d::ProcessGroupNCCL>(
                              c10::make_intrusive<c10d::HashStore>(), 0, 1, options),
                          mesh.context);
  return mesh;
}

TrainingState make_state(const comm::Mesh& mesh) {
  const at::Device device(at::kCUDA, 0);
  TrainingState state =
      assemble(small(), mesh,
               {.compute_dtype = at::kBFloat16,
                .device = device,
                .seed = 3,
                .plan = parallel::RecomputePlan(3, std::optional(ops::Kept::kNothing))});
  state.lr.fill_(1e-3);
  state.inverse_valid_tokens.fill_(1.0 / (4 * 64));
  return state;
}

TEST(Capture, AStepWithShardedParametersReplaysAsItRuns) {
  if (at::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
  const auto backend = device::open_backend({.name = "cuda"});
  ops::install_saved_tensor_hooks();
  const auto device = at::TensorOptions(at::kLong).device(at::Device(at::kCUDA, 0));
  const MicroBatch batch{at::arange(4 * 64, device).remainder(512).view({4, 64}),
                         at::arange(1, 4 * 64 + 1, device).remainder(512).view({4, 64})};
  constexpr int kReplays = 5;

  const comm::Mesh mesh = sharded_mesh();
  TrainingState plain = make_state(mesh);
  std::vector<double> expected;
  for (int i = 0; i < kWarmUpSteps + kReplays; ++i) {
    expected.push_back(train_step(plain, std::span(&batch, 1)).loss.item<double>());
  }
  EXPECT_LT(expected.back(), expected.front());

  TrainingState captured = make_state(mesh);
  mesh.context->traffic.reset();
  {
    CapturedStep step(*backend, captured);
    for (int i = 0; i < kWarmUpSteps + kReplays; ++i) {
      EXPECT_EQ(step.captured(), i > kWarmUpSteps) << i;
      EXPECT_EQ(step.run(std::span(&batch, 1)).loss.item<double>(),
                expected[static_cast<size_t>(i)])
          << i;
      // Replays count what they send.
      const auto sums = mesh.context->traffic.sums();
      EXPECT_EQ(sums.at({"fsdp", "all-gather"}).calls % (i + 1), 0) << i;
      EXPECT_GT(sums.at({"fsdp", "reduce-scatter"}).calls, i) << i;
      captured.step += 1;
    }
    EXPECT_EQ(step.replays(), kReplays);

    // A short batch at the end of the data runs as usual, between replays.
    const MicroBatch half{batch.inputs.narrow(0, 0, 2), batch.labels.narrow(0, 0, 2)};
    const auto all = [&](const MicroBatch& given) {
      const double alone = train_step(plain, std::span(&given, 1)).loss.item<double>();
      EXPECT_EQ(step.run(std::span(&given, 1)).loss.item<double>(), alone);
    };
    all(half);
    EXPECT_EQ(step.replays(), kReplays);
    all(batch);
    EXPECT_EQ(step.replays(), kReplays + 1);
    // Another shape that stays is recorded instead.
    for (int i = 0; i <= kWarmUpSteps; ++i) all(half);
    EXPECT_EQ(step.replays(), kReplays + 2);
  }
}

}  // namespace
}  // namespace titan::train
