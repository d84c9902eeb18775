// Schedules with stage s on rank s % ranks: GPipe, 1F1B, LoopedBFS, Interleaved1F1B and
// InterleavedZeroBubble.
#include <algorithm>

#include "parallel/pipeline/orders.h"

namespace titan::parallel::pipeline {

std::vector<Action> breadth_first_order(const OrderOf& of, bool backwards_reversed) {
  std::vector<Action> order;
  for (int64_t chunk = 0; chunk < of.stages_per_rank; ++chunk) {
    for (int64_t i = 0; i < of.num_microbatches; ++i)
      order.push_back({ActionKind::kForward, chunk * of.num_ranks + of.rank, i});
  }
  for (int64_t chunk = of.stages_per_rank - 1; chunk >= 0; --chunk) {
    for (int64_t i = 0; i < of.num_microbatches; ++i) {
      const int64_t microbatch = backwards_reversed ? of.num_microbatches - 1 - i : i;
      order.push_back({ActionKind::kBackward, chunk * of.num_ranks + of.rank, microbatch});
    }
  }
  return order;
}

namespace {

// The n-th forward or backward of a rank: groups of micro-batches walk through its stages.
Action nth_of_rank(ActionKind kind, int64_t n, const OrderOf& of, int64_t group) {
  const int64_t round = n / (group * of.stages_per_rank);
  const int64_t step = n / group % of.stages_per_rank;
  const int64_t chunk = kind == ActionKind::kForward ? step : of.stages_per_rank - 1 - step;
  return {kind, chunk * of.num_ranks + of.rank, round * group + n % group};
}

}  // namespace

std::vector<Action> one_forward_one_backward_order(const OrderOf& of,
                                                   const OneForwardOneBackward& how) {
  const int64_t total = of.stages_per_rank * of.num_microbatches;
  const int64_t warmup = std::min(
      total, (of.stages_per_rank - 1) * how.group + how.ahead * (of.num_ranks - 1 - of.rank));
  std::vector<Action> order;
  auto add = [&](ActionKind kind, int64_t n) {
    order.push_back(nth_of_rank(kind, n, of, how.group));
  };
  // A weight gradient is at the place of its backward among the backwards.
  auto add_weight = [&](int64_t n) {
    Action action = nth_of_rank(ActionKind::kBackwardInput, n, of, how.group);
    action.kind = ActionKind::kBackwardWeight;
    order.push_back(action);
  };
  for (int64_t n = 0; n < warmup; ++n) add(ActionKind::kForward, n);
  for (int64_t n = 0; n < total; ++n) {
    if (warmup + n < total) add(ActionKind::kForward, warmup + n);
    add(how.split_backward ? ActionKind::kBackwardInput : ActionKind::kBackward, n);
    if (how.split_backward && n >= of.rank) add_weight(n - of.rank);
  }
  if (how.split_backward) {
    for (int64_t n = std::max<int64_t>(0, total - of.rank); n < total; ++n) add_weight(n);
  }
  return order;
}

}  // namespace titan::parallel::pipeline
