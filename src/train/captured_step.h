// Training steps as a graph of the device: some steps run as usual, the next one is recorded whole
// (all micro-batches, forward, backward, reductions, clipping, optimizer, loss scale) and replayed
// from then on, so that the host launches one piece of work per step.
#pragma once

#include <c10/core/StreamGuard.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/job_config.h"
#include "device/backend.h"
#include "train/step.h"

namespace titan::train {

// Steps of one shape that run uncaptured first: libraries and communicators set themselves up in
// them, and the allocator's blocks settle.
inline constexpr int64_t kWarmUpSteps = 3;

// One phrase: why the steps of this run cannot be captured; empty when they can.
std::string capture_problem(const config::JobConfig& config, const TrainingState& state,
                            const device::Backend& backend);

// Makes the steps of one run. While it lives, work of its thread goes to a stream of its own,
// because the default stream cannot be recorded. `backend` and `state` must outlive it.
class CapturedStep {
 public:
  // Waits for the device once. REQUIRES: capture_problem() is empty. `required`: run() throws
  // EnvironmentError where the step cannot be recorded, before anything of that step was done;
  // else such a step, and all after it, run uncaptured.
  CapturedStep(device::Backend& backend, TrainingState& state, bool required = false);
  ~CapturedStep();
  CapturedStep(const CapturedStep&) = delete;
  CapturedStep& operator=(const CapturedStep&) = delete;

  // Like train_step(): same kernels, same numbers. The result's tensors are written again by the
  // next step. Steps of other shapes than the recorded one run uncaptured; after kWarmUpSteps of
  // them in a row the new shape is recorded instead. Collective.
  StepResult run(std::span<const MicroBatch> batches);

  bool captured() const { return recorded_.has_value(); }
  int64_t replays() const { return replays_; }

 private:
  using Shape = std::vector<std::vector<int64_t>>;  // of every tensor of every micro-batch
  using Sums = std::map<std::pair<std::string, std::string>, comm::Traffic::Sum>;

  // What one replay stands for.
  struct Recorded {
    Shape shape;
    std::vector<MicroBatch> inputs;  // read by the graph
    StepResult result;               // written by it
    Sums traffic;
  };

  void record(std::span<const MicroBatch> batches, Shape shape);
  std::string try_to_record(std::span<const MicroBatch> batches, Recorded& made);
  void give_up(const std::string& problem);
  StepResult replay(std::span<const MicroBatch> batches);

  device::Backend& backend_;
  TrainingState& state_;
  c10::StreamGuard stream_;
  std::unique_ptr<device::Graph> graph_;
  std::optional<Recorded> recorded_;
  Shape last_shape_;
  int64_t in_a_row_ = 0;  // steps of last_shape_ that ran uncaptured
  int64_t replays_ = 0;
  const bool required_;
  bool given_up_ = false;  // recording failed
};

}  // namespace titan::train
