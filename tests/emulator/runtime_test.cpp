// Streams, memory, graphs and faults of the emulated chip, as the adapter shows them.
#include <torch_npu/csrc/core/npu/NPUCachingAllocator.h>
#include <torch_npu/csrc/core/npu/NPUEvent.h>
#include <torch_npu/csrc/core/npu/NPUFunctions.h>
#include <torch_npu/csrc/core/npu/NPUGraph.h>
#include <torch_npu/csrc/core/npu/NPUGuard.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>

#include "emulator/npu.h"

namespace npu_test {
namespace {

// What a second stream sees of some additions on the first, with or without a wait.
constexpr int kAdditions = 300;

double seen_by_second_stream(bool wait) {
  const Tensor x = at::zeros({1000}, at::TensorOptions(device()));
  c10_npu::npuSynchronizeDevice();
  auto first = c10_npu::getCurrentNPUStream(), second = c10_npu::getNPUStreamFromPool();
  for (int step = 0; step < kAdditions; ++step) x.add_(1);
  if (wait) {
    c10_npu::NPUEvent done;
    done.record(first);
    done.block(second);
  }
  c10_npu::setCurrentNPUStream(second);
  const Tensor y = x * 2;
  c10_npu::setCurrentNPUStream(first);
  c10_npu::npuSynchronizeDevice();
  return y[0].item<double>();
}

TEST(Streams, AMissingWaitIsSeen) {
  device();
  EXPECT_EQ(seen_by_second_stream(true), 2 * kAdditions);
  EXPECT_NE(seen_by_second_stream(false), 2 * kAdditions);
}

TEST(Streams, EventsMeasureTime) {
  c10_npu::NPUEvent begin(ACL_EVENT_TIME_LINE), end(ACL_EVENT_TIME_LINE);
  begin.record();
  Tensor x = at::ones({128, 128}, at::TensorOptions(device()));
  for (int step = 0; step < 5; ++step) x = at::mm(x, x) / 128;
  end.record();
  end.synchronize();
  EXPECT_GT(begin.elapsed_time(end), 0);
  EXPECT_EQ(x[0][0].item<double>(), 1);
}

TEST(Memory, FreshMemoryIsPoisoned) {
  // More than the caching allocator can have kept from before.
  const Tensor x = at::empty({16 << 20}, at::TensorOptions(device()));
  EXPECT_TRUE(at::isnan(x.slice(0, 0, 64).cpu()).all().item<bool>());
}

TEST(Memory, MoreThanTheDeviceHasIsRefused) {
  device();
  const int64_t too_many = int64_t{1} << 40;
  try {
    at::empty({too_many}, at::TensorOptions(device()).dtype(at::kByte));
    FAIL() << "a tebibyte was allocated";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("out of memory"), std::string::npos) << error.what();
  }
  EXPECT_EQ(at::ones({4}, at::TensorOptions(device())).sum().item<double>(), 4);
}

TEST(Operators, AnUnknownOneIsRefusedByName) {
  const Tensor x = at::rand({2, 3, 4}).to(device());
  try {
    at::linalg_inv_ex(at::eye(3).to(device()));
    at::_cdist_forward(x, x, 2.0, std::nullopt);
    at::affine_grid_generator(x, {2, 1, 4, 4}, false);
    FAIL() << "nothing was refused";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("not emulated"), std::string::npos) << error.what();
  }
}

TEST(Graph, ReplayComputesFromTheNewInputs) {
  device();
  const Tensor x = at::ones({8}, at::TensorOptions(device()));
  Tensor y;
  auto stream = c10_npu::getNPUStreamFromPool(), before = c10_npu::getCurrentNPUStream();
  c10_npu::npuSynchronizeDevice();
  c10_npu::NPUGraph graph;
  c10_npu::setCurrentNPUStream(stream);
  graph.capture_begin();
  y = (x * 3 + 1).exp().sum();
  graph.capture_end();
  c10_npu::setCurrentNPUStream(before);
  for (double value : {0.5, -1.0}) {
    x.fill_(value);
    c10_npu::npuSynchronizeDevice();  // launches come from a queue
    const uint64_t launched = calls_with("aclnn");
    graph.replay();
    EXPECT_EQ(calls_with("aclnn"), launched);
    EXPECT_NEAR(y.item<double>(), 8 * std::exp(3 * value + 1), 1e-4);
  }
}

// y = x + 300 on one stream, then doubled on another, captured once and replayed.
double replayed_over_two_streams(bool wait_before, bool wait_after) {
  const Tensor x = at::zeros({1000}, at::TensorOptions(device()));
  auto before = c10_npu::getCurrentNPUStream(), first = c10_npu::getNPUStreamFromPool(),
       second = c10_npu::getNPUStreamFromPool();
  c10_npu::npuSynchronizeDevice();
  c10_npu::NPUGraph graph;
  c10_npu::setCurrentNPUStream(first);
  graph.capture_begin();
  c10_npu::NPUEvent begin, forked, joined;
  begin.record(first);
  begin.block(second);
  for (int step = 0; step < kAdditions; ++step) x.add_(1);
  if (wait_before) {
    forked.record(first);
    forked.block(second);
  }
  c10_npu::setCurrentNPUStream(second);
  const Tensor y = x * 2;
  c10_npu::setCurrentNPUStream(first);
  if (wait_after) {
    joined.record(second);
    joined.block(first);
  }
  graph.capture_end();
  c10_npu::setCurrentNPUStream(before);
  graph.replay();
  c10_npu::npuSynchronizeDevice();
  return y[0].item<double>();
}

TEST(Graph, KeepsTheWaitsBetweenStreams) {
  device();
  EXPECT_EQ(replayed_over_two_streams(true, true), 2 * kAdditions);
}

TEST(Graph, AMissingWaitIsSeenInTheReplay) {
  device();
  EXPECT_NE(replayed_over_two_streams(false, true), 2 * kAdditions);
}

TEST(Graph, AStreamThatIsNotJoinedIsAnError) {
  device();
  EXPECT_THROW(replayed_over_two_streams(true, false), c10::Error);
}

}  // namespace
}  // namespace npu_test
