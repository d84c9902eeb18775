// Runs lowered lists on a model of the ranks: says whether they end, in what time, with how much
// idling, and what each rank has to hold. This is what stands between a list and a hang: nothing
// is executed that did not pass here.
#pragma once

#include <vector>

#include "parallel/pipeline/schedule.h"

namespace titan::parallel::pipeline {

// Durations in one unit of the caller's choice. Sends take the rank no time.
struct Costs {
  double forward = 1;
  double backward = 2;
  double backward_input = 1;
  double backward_weight = 1;
  double transfer = 0;  // from the send until the message can be received
  double unshard = 0;
  double reduce = 0;

  double of(ActionKind kind) const;
};

struct TimedAction {
  Action action;
  double start;  // of a receive: when the rank begins to wait
  double end;
};

struct RankReport {
  std::vector<TimedAction> actions;  // the rank's list, in order
  double busy = 0;                   // sum of all but waiting
  double bubble_share = 0;           // idle part of the makespan, 0..1
  double idle_inside = 0;            // idle time between its first and its last computation
  // One activation is what one forward of one stage keeps for its backward; it is live from the
  // forward until kBackward or kBackwardInput. Between kBackwardInput and kBackwardWeight a weight
  // gradient is pending: part of the activation and the gradients of outputs are still held.
  int64_t peak_live_activations = 0;
  int64_t peak_pending_weights = 0;
  int64_t peak_live_and_pending = 0;  // of both at one time
  int64_t peak_gathered_stages = 0;
};

struct Report {
  double makespan = 0;
  double bubble_share = 0;  // idle part of all ranks' time, 0..1
  std::vector<RankReport> ranks;

  // The length of the shortest computation that takes time; 1 if none does.
  double shortest_computation() const;
};

// Throws Error for lists that would hang (each waiting rank, at which action, for what) or compute
// something wrong: an action before its input, twice or never; a message that is never taken, or
// taken in another order than it was sent; use of parameters that are not gathered (if the lists
// gather at all); gradients reduced too early or never.
Report simulate(const Schedule& lowered, const Costs& costs = {});

}  // namespace titan::parallel::pipeline
