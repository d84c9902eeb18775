#include "parallel/pipeline/lower.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "base/error.h"

namespace titan::parallel::pipeline {
namespace {

// A computation and what is to be put around it.
struct Step {
  Action compute;
  std::vector<Action> receives;
  std::optional<Action> send;
  bool unshard = false;
  bool reshard = false;
  bool reduce = false;
};

bool uses_parameters(const Step& step) {
  return step.compute.kind == ActionKind::kForward || makes_input_gradient(step.compute.kind);
}

bool on_another_rank(const Schedule& schedule, int64_t stage, int64_t neighbour) {
  return neighbour >= 0 && neighbour < schedule.num_stages &&
         schedule.rank_of_stage[stage] != schedule.rank_of_stage[neighbour];
}

// The receive of what `compute` needs from another rank.
std::optional<Action> receive_for(const Action& compute, const Schedule& schedule) {
  const auto [kind, stage, microbatch] = compute;
  if (kind == ActionKind::kForward && on_another_rank(schedule, stage, stage - 1))
    return Action{ActionKind::kReceiveForward, stage, microbatch};
  if (makes_input_gradient(kind) && on_another_rank(schedule, stage, stage + 1))
    return Action{ActionKind::kReceiveBackward, stage, microbatch};
  return std::nullopt;
}

// The send of what `compute` makes for another rank.
std::optional<Action> send_after(const Action& compute, const Schedule& schedule) {
  const auto [kind, stage, microbatch] = compute;
  if (kind == ActionKind::kForward && on_another_rank(schedule, stage, stage + 1))
    return Action{ActionKind::kSendForward, stage, microbatch};
  if (makes_input_gradient(kind) && on_another_rank(schedule, stage, stage - 1))
    return Action{ActionKind::kSendBackward, stage, microbatch};
  return std::nullopt;
}

// The messages of every pair of ranks, in the order they are sent, each named by its receive.
class Channels {
 public:
  explicit Channels(const Schedule& schedule) : schedule_(schedule) {
    for (const auto& list : schedule.per_rank) {
      for (const Action& compute : list) {
        if (const auto send = send_after(compute, schedule)) {
          const Action receive = receive_of(*send);
          queues_[pair_of(receive)].push_back(receive);
        }
      }
    }
  }

  // Takes the messages up to `receive` out of its channel; none if it was taken with another one.
  std::vector<Action> take_up_to(const Action& receive) {
    auto& taken_before = early_[pair_of(receive)];
    if (const auto early = std::ranges::find(taken_before, receive); early != taken_before.end()) {
      taken_before.erase(early);
      return {};
    }
    auto& queue = queues_[pair_of(receive)];
    std::vector<Action> taken;
    while (taken.empty() || taken.back() != receive) {
      TITAN_CHECK(!queue.empty(), "no rank sends {}", to_text(receive));
      taken.push_back(queue.front());
      queue.pop_front();
    }
    taken_before.insert(taken_before.end(), taken.begin(), taken.end() - 1);
    return taken;
  }

 private:
  using Pair = std::pair<int64_t, int64_t>;  // sending rank, receiving rank

  Pair pair_of(const Action& receive) const {
    const int64_t sender = receive.stage + (receive.kind == ActionKind::kReceiveForward ? -1 : 1);
    return {schedule_.rank_of_stage[sender], schedule_.rank_of_stage[receive.stage]};
  }

  const Schedule& schedule_;
  std::map<Pair, std::deque<Action>> queues_;
  std::map<Pair, std::vector<Action>> early_;  // received before their use
};

void mark_reduces(std::vector<Step>& steps) {
  std::map<int64_t, Step*> last;
  for (Step& step : steps) {
    if (makes_weight_gradient(step.compute.kind)) last[step.compute.stage] = &step;
  }
  for (auto& [stage, step] : last) step->reduce = true;
}

void gather_for_whole_step(std::vector<Step>& steps) {
  std::map<int64_t, Step*> last;
  for (Step& step : steps) {
    if (!uses_parameters(step)) continue;
    step.unshard = !last.contains(step.compute.stage);
    last[step.compute.stage] = &step;
  }
  for (auto& [stage, step] : last) step->reshard = true;
}

void gather_around_uses(std::vector<Step>& steps) {
  Step* previous = nullptr;  // the last use, while nothing was received since
  for (Step& step : steps) {
    if (!step.receives.empty()) previous = nullptr;
    if (!uses_parameters(step)) continue;
    step.unshard = step.reshard = true;
    if (previous != nullptr && previous->compute.stage == step.compute.stage)
      step.unshard = previous->reshard = false;
    previous = &step;
  }
}

std::vector<Action> written_out(const std::vector<Step>& steps) {
  std::vector<Action> list;
  for (const Step& step : steps) {
    const int64_t stage = step.compute.stage;
    if (step.unshard) list.push_back({ActionKind::kUnshard, stage, kWholeStage});
    list.insert(list.end(), step.receives.begin(), step.receives.end());
    list.push_back(step.compute);
    if (step.send) list.push_back(*step.send);
    if (step.reshard) list.push_back({ActionKind::kReshard, stage, kWholeStage});
    if (step.reduce) list.push_back({ActionKind::kReduce, stage, kWholeStage});
  }
  return list;
}

}  // namespace

Action receive_of(const Action& send) {
  TITAN_CHECK(is_send(send.kind), "{} is no send", to_text(send));
  if (send.kind == ActionKind::kSendForward)
    return {ActionKind::kReceiveForward, send.stage + 1, send.microbatch};
  return {ActionKind::kReceiveBackward, send.stage - 1, send.microbatch};
}

Schedule lower(const Schedule& compute, GatherPolicy policy) {
  Schedule lowered = compute;
  Channels channels(compute);
  for (auto& list : lowered.per_rank) {
    std::vector<Step> steps;
    for (const Action& action : list) {
      Step step{.compute = action, .send = send_after(action, compute)};
      if (const auto receive = receive_for(action, compute))
        step.receives = channels.take_up_to(*receive);
      steps.push_back(std::move(step));
    }
    mark_reduces(steps);
    if (policy == GatherPolicy::kWholeStep) gather_for_whole_step(steps);
    if (policy == GatherPolicy::kAroundUse) gather_around_uses(steps);
    list = written_out(steps);
  }
  return lowered;
}

}  // namespace titan::parallel::pipeline
