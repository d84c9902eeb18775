// Schedules with a V-shaped placement: rank r holds stage r on the way down and stage
// 2 ranks - 1 - r on the way up, so the last and the first stage are on rank 0.
#include <algorithm>
#include <array>
#include <deque>

#include "parallel/pipeline/orders.h"

namespace titan::parallel::pipeline {
namespace {

enum Leg { kDown = 0, kUp = 1 };

// Appends actions; each kind takes the micro-batches of a leg in their order.
class VOrder {
 public:
  explicit VOrder(const OrderOf& of)
      : num_microbatches_(of.num_microbatches), stage_{of.rank, 2 * of.num_ranks - 1 - of.rank} {}

  void forward(Leg leg) { add(ActionKind::kForward, leg, next_forward_[leg]++); }
  void backward(Leg leg) { add(ActionKind::kBackward, leg, next_backward_[leg]++); }
  void backward_input(Leg leg) {
    pending_.push_back({ActionKind::kBackwardWeight, stage_[leg], next_backward_[leg]});
    add(ActionKind::kBackwardInput, leg, next_backward_[leg]++);
  }
  // Backward in two halves, one right after the other.
  void backward_in_halves(Leg leg) {
    const int64_t microbatch = next_backward_[leg]++;
    add(ActionKind::kBackwardInput, leg, microbatch);
    add(ActionKind::kBackwardWeight, leg, microbatch);
  }
  // The oldest weight gradient still to do of any leg, or of one.
  void oldest_weight() {
    if (!pending_.empty()) take(pending_.begin());
  }
  bool oldest_weight(Leg leg) {
    const auto oldest = std::ranges::find(pending_, stage_[leg], &Action::stage);
    if (oldest == pending_.end()) return false;
    take(oldest);
    return true;
  }

  int64_t forwards(Leg leg) const { return next_forward_[leg]; }
  std::vector<Action> finish() { return std::move(order_); }

 private:
  void add(ActionKind kind, Leg leg, int64_t microbatch) {
    if (microbatch < num_microbatches_) order_.push_back({kind, stage_[leg], microbatch});
  }
  void take(std::deque<Action>::iterator weight) {
    if (weight->microbatch < num_microbatches_) order_.push_back(*weight);
    pending_.erase(weight);
  }

  int64_t num_microbatches_;
  std::array<int64_t, 2> stage_;
  std::array<int64_t, 2> next_forward_ = {0, 0};
  std::array<int64_t, 2> next_backward_ = {0, 0};
  std::deque<Action> pending_;
  std::vector<Action> order_;
};

}  // namespace

// Fewer than 2 ranks - 1 micro-batches do not fill the V: the order is then that of 2 ranks - 1
// with the missing ones left out.
std::vector<Action> zbv_order(const OrderOf& of) {
  const int64_t full = std::max(2 * of.num_ranks - 1, of.num_microbatches);
  const int64_t ranks_from_here = of.num_ranks - of.rank;
  VOrder order(of);
  for (int64_t i = 0; i < 2 * ranks_from_here - 1; ++i) order.forward(kDown);
  for (int64_t i = 0; i < of.rank; ++i) {
    order.forward(kUp);
    order.forward(kDown);
  }
  for (int64_t i = 0; i < ranks_from_here; ++i) {
    order.forward(kUp);
    order.backward_in_halves(kUp);
  }
  while (order.forwards(kUp) < full) {
    if (order.forwards(kDown) < full) order.forward(kDown);
    order.backward_in_halves(kDown);
    order.forward(kUp);
    order.backward_in_halves(kUp);
  }
  for (int64_t i = 0; i < of.rank; ++i) {
    order.backward_input(kDown);
    order.backward_input(kUp);
  }
  for (int64_t i = 0; i < ranks_from_here; ++i) {
    order.backward_input(kDown);
    order.oldest_weight(kDown);
  }
  while (order.oldest_weight(kUp)) continue;
  while (order.oldest_weight(kDown)) continue;
  return order.finish();
}

// Where the original runs a forward and a backward overlapped, the forward comes first here.
std::vector<Action> dual_pipe_v_order(const OrderOf& of) {
  const int64_t ranks_after = of.num_ranks - 1 - of.rank;
  VOrder order(of);
  for (int64_t i = 0; i < 2 * ranks_after; ++i) order.forward(kDown);
  for (int64_t i = 0; i <= of.rank; ++i) {
    order.forward(kDown);
    order.forward(kUp);
  }
  for (int64_t i = 0; i < ranks_after; ++i) {
    order.backward_input(kUp);
    order.oldest_weight();
    order.forward(kUp);
  }
  for (int64_t i = 0; i < of.num_microbatches - 2 * of.num_ranks + of.rank + 1; ++i) {
    order.forward(kDown);
    order.backward(kUp);
    order.forward(kUp);
    order.backward(kDown);
  }
  for (int64_t i = 0; i < ranks_after; ++i) {
    order.backward(kUp);
    order.forward(kUp);
    order.backward(kDown);
  }
  // From the middle of the last backwards on, weight gradients wait: first of the leg up on odd
  // ranks, of the leg down on even ones.
  const int64_t last = of.rank + 1;
  const int64_t middle = last / 2;
  for (int64_t i = 0; i < last; ++i) {
    const bool up_waits = i > middle || (i == middle && of.rank % 2 == 1);
    const bool down_waits = i >= middle;
    up_waits ? order.backward_input(kUp) : order.backward(kUp);
    down_waits ? order.backward_input(kDown) : order.backward(kDown);
  }
  for (int64_t i = 0; i < ranks_after; ++i) {
    order.oldest_weight();
    order.backward_input(kDown);
  }
  for (int64_t i = 0; i < last; ++i) order.oldest_weight();
  return order.finish();
}

}  // namespace titan::parallel::pipeline
