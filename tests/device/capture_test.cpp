// A whole training step with FSDP's collectives and recomputation inside one CUDA graph: what
// captured steps will stand on. Needs a GPU; skipped without one.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "ops/recompute.h"
#include "train/assembly.h"
#include "train/step.h"

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
  ops::install_saved_tensor_hooks();
  const auto device = at::TensorOptions(at::kLong).device(at::Device(at::kCUDA, 0));
  const MicroBatch batch{at::arange(4 * 64, device).remainder(512).view({4, 64}),
                         at::arange(1, 4 * 64 + 1, device).remainder(512).view({4, 64})};
  constexpr int kWarmUp = 3, kReplays = 5;

  const comm::Mesh mesh = sharded_mesh();
  TrainingState plain = make_state(mesh);
  std::vector<double> expected;
  for (int i = 0; i < kWarmUp + kReplays; ++i) {
    expected.push_back(train_step(plain, std::span(&batch, 1)).loss.item<double>());
  }
  EXPECT_LT(expected.back(), expected.front());

  TrainingState captured = make_state(mesh);
  const auto stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  for (int i = 0; i < kWarmUp; ++i) {
    EXPECT_EQ(train_step(captured, std::span(&batch, 1)).loss.item<double>(),
              expected[static_cast<size_t>(i)]);
  }
  mesh.context->traffic.reset();
  at::cuda::CUDAGraph graph;
  // Other threads (NCCL's watchdog) may call what a capturing thread may not.
  graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  const StepResult result = train_step(captured, std::span(&batch, 1));
  graph.capture_end();
  EXPECT_GT(mesh.context->traffic.sums().at({"fsdp", "all-gather"}).calls, 0);
  EXPECT_GT(mesh.context->traffic.sums().at({"fsdp", "reduce-scatter"}).calls, 0);
  for (int i = 0; i < kReplays; ++i) {
    graph.replay();
    EXPECT_EQ(result.loss.item<double>(), expected[static_cast<size_t>(kWarmUp + i)]) << i;
  }
}

}  // namespace
}  // namespace titan::train
