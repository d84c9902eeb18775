#include "train/captured_step.h"

#include <exception>

#include "base/clock.h"
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

CapturedStep::CapturedStep(device::Backend& backend, TrainingState& state)
    : backend_(backend),
      state_(state),
      stream_(stream_after_all_work(backend)),
      graph_(backend.make_graph()) {}

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

  auto& traffic = state_.mesh.context->traffic;
  const Sums before = traffic.sums();
  Recorded made{.shape = std::move(shape)};
  for (const auto& batch : batches) made.inputs.push_back(copy_of(batch));
  std::string problem;
  try {
    graph_->begin();
    made.result = train_step(state_, made.inputs);
    graph_->end();
  } catch (const std::exception& error) {
    problem = text::split(error.what(), '\n').front();
    made = {};
    state_.optimizer->clear_gradients();
    try {
      graph_->end();
    } catch (const std::exception&) {
      // What the capture made of the failure above.
    }
  }
  if (!on_all_ranks(problem.empty(), state_.mesh)) {
    graph_->reset();
    given_up_ = true;
    log::warning("The step runs uncaptured: it could not be recorded{}",
                 problem.empty() ? " by another rank" : ": " + problem);
    return;
  }
  made.traffic = traffic.sums();
  for (const auto& [key, sum] : before) {
    made.traffic[key].calls -= sum.calls;
    made.traffic[key].bytes -= sum.bytes;
  }
  recorded_ = std::move(made);
  log::info("The step is captured: {:.2f} s, {} of memory for its pool; replayed from step {} on",
            watch.seconds(), text::bytes(backend_.memory().reserved - reserved), state_.step + 1);
}

// Of the batches that the graph was recorded with where `batches` is empty.
StepResult CapturedStep::replay(std::span<const MicroBatch> batches) {
  auto& context = *state_.mesh.context;
  context.progress.step = state_.step + 1;
  context.progress.phase = "replay";
  for (size_t i = 0; i < batches.size(); ++i) copy_into(recorded_->inputs[i], batches[i]);
  graph_->replay();
  ++replays_;
  if (batches.empty()) return recorded_->result;  // recording has counted its messages
  for (const auto& [key, sum] : recorded_->traffic) {
    for (int64_t call = 0; call < sum.calls; ++call) {
      context.traffic.add(key.first, key.second.c_str(), call == 0 ? sum.bytes : 0);
    }
  }
  return recorded_->result;
}

}  // namespace titan::train
