// Captured steps on the CPU, with a graph made for tests: a replay is the step, and a recording
// that fails anywhere leaves nothing behind.
#include "train/captured_step.h"

#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/error.h"
#include "comm/thread_world.h"
#include "device/registry.h"
#include "models/tiny.h"
#include "ops/recompute.h"
#include "support/tiny_args.h"
#include "train/assembly.h"
#include "train/toy_graph.h"

namespace titan::train {
namespace {

// The CPU with graphs.
class ToyBackend : public device::Backend {
 public:
  explicit ToyBackend(std::shared_ptr<ToyGraph::Faults> faults) : faults_(std::move(faults)) {}
  std::string name() const override { return "toy"; }
  int count() const override { return 1; }
  void select(int) override {}
  c10::Device device() const override { return at::kCPU; }
  std::string device_name() const override { return "toy"; }
  std::string description() const override { return "toy"; }
  void seed(uint64_t) override {}
  void set_deterministic(bool) override {}
  void synchronize() override {}
  device::MemoryStats memory() const override { return {}; }
  void reset_peak_memory() override {}
  void release_cached_memory() override {}
  int64_t free_memory() const override { return 0; }
  device::PeakFlops peak_flops(c10::ScalarType) override { return {}; }
  bool has_streams() const override { return false; }
  std::unique_ptr<device::Graph> make_graph() override {
    auto graph = std::make_unique<ToyGraph>(faults_);
    graph_ = graph.get();
    return graph;
  }
  c10::intrusive_ptr<c10d::Backend> make_process_group(
      const c10::intrusive_ptr<c10d::Store>&, const device::ProcessGroupOptions&) override {
    return {};
  }
  std::optional<std::string> health_check() override { return std::nullopt; }

  const ToyGraph& graph() const { return *graph_; }

 private:
  std::shared_ptr<ToyGraph::Faults> faults_;
  ToyGraph* graph_ = nullptr;
};

models::ModelArgs tiny() {
  auto args = models::tiny_llama3();
  args.num_layers = 2;
  return args;
}

TrainingState make_state(const comm::Mesh& mesh, bool recomputes) {
  parallel::RecomputePlan plan;
  if (recomputes) plan = parallel::RecomputePlan(2, std::optional(ops::Kept::kNothing));
  TrainingState state = assemble(
      tiny(), mesh,
      {.parameter_dtype = at::kDouble, .compute_dtype = at::kDouble, .seed = 1, .plan = plan});
  state.max_norm = 0.2;
  return state;
}

std::vector<MicroBatch> batches_of(int64_t step, int64_t count, TrainingState& state) {
  std::vector<MicroBatch> micro;
  int64_t valid = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto batch = models::tiny_batch(2, 12, 40, 10 * step + i);
    micro.push_back({batch.inputs, batch.labels});
    valid += batch.valid_tokens;
  }
  state.inverse_valid_tokens.fill_(1.0 / static_cast<double>(valid));
  state.lr.fill_(0.01 / static_cast<double>(step));  // a schedule
  return micro;
}

using Outcome = std::vector<double>;

void note(Outcome& outcome, const StepResult& result) {
  outcome.push_back(result.loss.item<double>());
  outcome.push_back(result.grad_norm.item<double>());
}

void note_tensors(Outcome& outcome, TrainingState& state) {
  for (const auto& list : {model_tensors(state), optimizer_tensors(state)}) {
    for (const auto& named : list) {
      outcome.push_back(named.tensor.detach().to(at::kDouble).sum().item<double>());
      outcome.push_back(named.tensor.detach().to(at::kDouble).square().sum().item<double>());
    }
  }
}

// How many micro-batches the steps have: the last one has fewer.
constexpr int64_t kCounts[] = {2, 2, 2, 2, 2, 2, 1, 2};

Outcome plain(const comm::Mesh& mesh, bool recomputes) {
  TrainingState state = make_state(mesh, recomputes);
  Outcome outcome;
  for (const int64_t count : kCounts) {
    note(outcome, train_step(state, batches_of(++state.step, count, state)));
  }
  note_tensors(outcome, state);
  return outcome;
}

struct Ran {
  Outcome outcome;
  int64_t replays = 0, calls = 0, resets = 0;
  std::map<std::pair<std::string, std::string>, comm::Traffic::Sum> traffic;
};

Ran captured(const comm::Mesh& mesh, bool recomputes, ToyGraph::Faults faults = {}) {
  TrainingState state = make_state(mesh, recomputes);
  mesh.context->traffic.reset();
  ToyBackend backend(std::make_shared<ToyGraph::Faults>(faults));
  CapturedStep step(backend, state);
  Ran run;
  for (const int64_t count : kCounts) {
    const auto batches = batches_of(state.step + 1, count, state);
    note(run.outcome, step.run(batches));
    ++state.step;
  }
  run.replays = step.replays();
  run.calls = backend.graph().calls();
  run.resets = backend.graph().resets();
  run.traffic = mesh.context->traffic.sums();
  note_tensors(run.outcome, state);
  return run;
}

// One process; the same sharded over one rank.
class CapturedSteps : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { ops::install_saved_tensor_hooks(); }

  void with_mesh(const std::function<void(const comm::Mesh&)>& body) const {
    if (!GetParam()) return body({});
    const comm::ThreadWorld world(1);
    world.run([&](int64_t rank) {
      const auto context = std::make_shared<comm::RankContext>();
      const auto maker = world.maker(rank, context);
      body(comm::make_mesh({}, rank, maker, maker, context, /*real_fsdp=*/true));
    });
  }

  const std::unique_ptr<torch::Library> hook_ = ToyGraph::hook();
};

TEST_P(CapturedSteps, AReplayIsTheStep) {
  with_mesh([](const comm::Mesh& mesh) {
    for (const bool recomputes : {false, true}) {
      const Outcome expected = plain(mesh, recomputes);
      const Ran run = captured(mesh, recomputes);
      EXPECT_EQ(run.outcome, expected);
      EXPECT_EQ(run.replays, 4);  // of 8 steps: 3 warm up, one is of another shape
      EXPECT_GT(run.calls, 100);
    }
  });
}

TEST_P(CapturedSteps, ARecordingThatFailsAnywhereLeavesNothingBehind) {
  with_mesh([](const comm::Mesh& mesh) {
    for (const bool recomputes : {false, true}) {
      mesh.context->traffic.reset();
      const Outcome expected = plain(mesh, recomputes);
      const auto traffic = mesh.context->traffic.sums();
      const int64_t calls = captured(mesh, recomputes).calls;
      std::vector<ToyGraph::Faults> all{{.at_begin = true}, {.at_end = true}};
      for (int64_t call = 1; call <= calls; call += 41) all.push_back({.at_call = call});
      for (const auto& faults : all) {
        const Ran run = captured(mesh, recomputes, faults);
        EXPECT_EQ(run.outcome, expected) << "call " << faults.at_call << " of " << calls;
        EXPECT_EQ(run.replays, 0);
        EXPECT_EQ(run.calls, 0);
        EXPECT_EQ(run.resets, 1);  // one attempt
        for (const auto& [key, sum] : traffic) {
          EXPECT_EQ(run.traffic.at(key).calls, sum.calls) << key.first << " " << key.second;
          EXPECT_EQ(run.traffic.at(key).bytes, sum.bytes);
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, CapturedSteps, testing::Bool(), [](const auto& given) {
  return given.param ? std::string("Sharded") : std::string("Whole");
});

TEST(CapturedStep, ThatIsRequiredStopsBeforeTheStepWhenItCannotBeRecorded) {
  ops::install_saved_tensor_hooks();
  const auto hook = ToyGraph::hook();
  TrainingState state = make_state({}, false);
  ToyBackend backend(std::make_shared<ToyGraph::Faults>(ToyGraph::Faults{.at_call = 100}));
  CapturedStep step(backend, state, /*required=*/true);
  for (int64_t i = 0; i < kWarmUpSteps; ++i) {
    step.run(batches_of(state.step + 1, 2, state));
    ++state.step;
  }
  Outcome before, after;
  note_tensors(before, state);
  const auto batches = batches_of(state.step + 1, 2, state);
  try {
    step.run(batches);
    FAIL() << "it ran";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find("the toy refuses"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("compile.require"), std::string::npos);
  }
  note_tensors(after, state);
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace titan::train
