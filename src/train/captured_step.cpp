#include "train/captured_step.h"

#include <exception>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace titan::train {
namespace {

using at::Tensor;

// Visits the tensors of a micro-batch in a fixed order, undefined ones too.
template <class Batch, class Function>
void each_tensor(Batch& batch, Function function) {
  function(batch.inputs);
  function(batch.labels);
  function(batch.places.positions);
  function(batch.places.documents);
}

std::vector<std::vector<int64_t>> shape_of(std::span<const MicroBatch> batches) {
  std::vector<std::vector<int64_t>> shape;
  for (const auto& batch : batches) {
    each_tensor(batch, [&](const Tensor& x) {
      shape.push_back(x.defined() ? x.sizes().vec() : std::vector<int64_t>{-1});
    });
  }
  return shape;
}

MicroBatch copy_of(MicroBatch batch) {
  each_tensor(batch, [](Tensor& x) {
    if (x.defined()) x = x.clone();
  });
  return batch;
}

void copy_into(MicroBatch& kept, const MicroBatch& batch) {
  std::vector<Tensor> from;
  each_tensor(batch, [&](const Tensor& x) { from.push_back(x); });
  size_t i = 0;
  each_tensor(kept, [&](Tensor& x) {
    if (const Tensor& source = from[i++]; x.defined()) x.copy_(source, /*non_blocking=*/true);
  });
}

int64_t tensors_of(std::span<const MicroBatch> batches) {
  int64_t count = 0;
  for (const auto& batch : batches) {
    each_tensor(batch, [&](const Tensor& x) { count += x.defined(); });
  }
  return count;
}

void count(const std::map<std::pair<std::string, std::string>, comm::Traffic::Sum>& sums,
           comm::Traffic& traffic) {
  for (const auto& [key, sum] : sums) {
    for (int64_t call = 0; call < sum.calls; ++call) {
      traffic.add(key.first, key.second.c_str(), call == 0 ? sum.bytes : 0);
    }
  }
}

// Whether it went well on every rank.
bool on_all_ranks(bool well, const comm::Mesh& mesh) {
  if (mesh.shape.world() == 1) return well;
  Tensor failures = at::tensor({well ? 0 : 1}, at::kInt);
  mesh.world.start_all_reduce(failures, comm::Reduce::kMax).wait();
  return failures.item<int>() == 0;
}

c10::Stream stream_after_all_work(device::Backend& backend) {
  backend.synchronize();
  return device::new_stream(backend.device());
}

}  // namespace

std::string capture_problem(const config::JobConfig& config, const TrainingState& state,
                            const device::Backend& backend) {
  if (const auto problem = backend.graph_problem(); !problem.empty()) return problem;
  if (state.pipeline) return "the host drives a pipeline's schedule";
  if (config.training.enable_cpu_offload) return "training.enable_cpu_offload updates on the host";
  if (state.early_step) return "optimizer.early_step_in_backward updates in the backward pass";
  if (config.comm.mode == "fake_backend") return "comm.mode = fake_backend has no other ranks";
  if (state.lr.scalar_type() == at::kDouble) {
    return "the optimizer of float64 parameters takes the learning rate from the host";
  }
  return "";
}

CapturedStep::CapturedStep(device::Backend& backend, TrainingState& state, bool required)
    : backend_(backend),
      state_(state),
      stream_(stream_after_all_work(backend)),
      graph_(backend.make_graph()),
      required_(required) {}

CapturedStep::~CapturedStep() {
  // After an error the device may never end its work.
  if (std::uncaught_exceptions() > 0) return;
  try {
    backend_.synchronize();
  } catch (const std::exception& error) {
    log::warning("{}", error.what());
  }
}

StepResult CapturedStep::run(std::span<const MicroBatch> batches) {
  Shape shape = shape_of(batches);
  if (recorded_ && recorded_->shape == shape) {
    in_a_row_ = 0;
    return replay(batches);
  }
  in_a_row_ = shape == last_shape_ ? in_a_row_ + 1 : 1;
  last_shape_ = shape;
  if (in_a_row_ > kWarmUpSteps && !given_up_) {
    record(batches, std::move(shape));
    if (recorded_) return replay({});
  }
  return train_step(state_, batches);
}

// What kept this rank from it; empty when it went well. Nothing has run either way.
std::string CapturedStep::try_to_record(std::span<const MicroBatch> batches, Recorded& made) {
  try {
    for (const auto& batch : batches) made.inputs.push_back(copy_of(batch));
    graph_->begin();
    made.result = train_step(state_, made.inputs);
    graph_->end();
    return "";
  } catch (const std::exception& error) {
    made = {};
    try {
      graph_->end();
    } catch (const std::exception&) {
      // What the capture made of the failure above.
    }
    return text::split(error.what(), '\n').front();
  }
}

// Leaves recorded_ empty when it fails on any rank.
void CapturedStep::record(std::span<const MicroBatch> batches, Shape shape) {
  const Stopwatch watch;
  // Of the steps before, the allocator keeps blocks that the graph's pool cannot have.
  backend_.synchronize();
  if (recorded_) {
    recorded_.reset();
    graph_->reset();
  }
  backend_.release_cached_memory();
  const int64_t reserved = backend_.memory().reserved;

  auto& context = *state_.mesh.context;
  const Sums before = context.traffic.sums();
  const auto mark = context.recorder.mark();
  Recorded made{.shape = std::move(shape)};
  const std::string problem = try_to_record(batches, made);
  made.traffic = context.traffic.sums();
  context.traffic.reset();
  count(before, context.traffic);
  if (!on_all_ranks(problem.empty(), state_.mesh)) {
    made = {};
    context.recorder.back_to(mark);
    return give_up(problem.empty() ? "another rank could not" : problem);
  }
  int64_t collectives = 0;
  for (auto& [key, sum] : made.traffic) {
    const auto earlier = before.find(key);
    if (earlier != before.end()) {
      sum.calls -= earlier->second.calls;
      sum.bytes -= earlier->second.bytes;
    }
    collectives += sum.calls;
  }
  recorded_ = std::move(made);
  log::info(
      "The step is captured: {} micro-batches of {} tokens, {} collectives, {:.2f} s, {} of memory "
      "for its pool; a replay is one launch and {} copies of batches; replayed from step {} on",
      batches.size(), batches.empty() ? 0 : batches[0].inputs.numel(), collectives, watch.seconds(),
      text::bytes(backend_.memory().reserved - reserved), tensors_of(batches), state_.step + 1);
}

// The step has left nothing behind: its gradients, what its runners had gathered and reduced, and
// the graph's memory are gone.
void CapturedStep::give_up(const std::string& problem) {
  given_up_ = true;
  state_.optimizer->clear_gradients();
  for (auto& stage : state_.stages) stage.runner->abandon_step();
  graph_->reset();
  backend_.synchronize();
  backend_.release_cached_memory();
  // torch_npu's task queue takes no work any more after an error in its thread, and says nothing.
  if (const auto sick = backend_.health_check()) {
    throw EnvironmentError(
        "[compile] the step could not be recorded: {} — and the device computes no more ({}); "
        "unset "
        "compile.enable, or npu.task_queue to train on after such a failure",
        problem, *sick);
  }
  if (required_) {
    throw EnvironmentError(
        "[compile] the step could not be recorded: {} — unset compile.require to train without",
        problem);
  }
  log::warning("The step runs uncaptured: it could not be recorded: {}", problem);
}

// Of the batches that the graph was recorded with where `batches` is empty.
StepResult CapturedStep::replay(std::span<const MicroBatch> batches) {
  auto& context = *state_.mesh.context;
  context.progress.step = state_.step + 1;
  context.progress.phase = "replay";
  for (size_t i = 0; i < batches.size(); ++i) copy_into(recorded_->inputs[i], batches[i]);
  graph_->replay();
  ++replays_;
  count(recorded_->traffic, context.traffic);
  return recorded_->result;
}

}  // namespace titan::train
