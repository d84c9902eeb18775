#include "parallel/pipeline/simulate.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "parallel/pipeline/lower.h"

namespace titan::parallel::pipeline {
namespace {

struct Message {
  Action receive;
  double arrival;
};

// What each stage has done, with the rules of what may follow. Knows nothing of time.
class Stages {
 public:
  explicit Stages(const Schedule& lowered)
      : lowered_(lowered),
        done_(lowered.num_stages * lowered.num_microbatches, 0),
        weights_done_(lowered.num_stages, 0),
        gathered_(lowered.num_stages, false),
        reduced_(lowered.num_stages, false) {
    for (const auto& list : lowered.per_rank) {
      gathers_ |= std::ranges::any_of(
          list, [](const Action& action) { return action.kind == ActionKind::kUnshard; });
    }
  }

  // Takes note of `action` of `rank`. Returns what is wrong with it, or "".
  std::string take(const Action& action, int64_t rank) {
    if (std::string problem = misplaced(action, rank); !problem.empty()) return problem;
    if (action.microbatch == kWholeStage) return take_whole_stage(action);
    if (has(action.stage, action.kind, action.microbatch)) return "comes a second time";
    if (std::string problem = missing_before(action); !problem.empty()) return problem;
    if (makes_weight_gradient(action.kind)) ++weights_done_[action.stage];
    done_[place(action.stage, action.microbatch)] |= bit(action.kind);
    return "";
  }

  // What is left undone, or "".
  std::string unfinished() const {
    for (int64_t stage = 0; stage < lowered_.num_stages; ++stage) {
      for (int64_t microbatch = 0; microbatch < lowered_.num_microbatches; ++microbatch) {
        if (!has(stage, ActionKind::kForward, microbatch))
          return fmt::format("{}F{} is missing", stage, microbatch);
      }
      if (weights_done_[stage] != lowered_.num_microbatches) {
        return fmt::format("stage {} has the weight gradients of {} micro-batches, not of {}",
                           stage, weights_done_[stage], lowered_.num_microbatches);
      }
      if (!reduced_[stage])
        return fmt::format("the gradients of stage {} are never reduced", stage);
      if (gathered_[stage]) return fmt::format("stage {} is left gathered", stage);
    }
    return "";
  }

  int64_t num_gathered(int64_t rank) const {
    int64_t count = 0;
    for (int64_t stage = 0; stage < lowered_.num_stages; ++stage)
      count += gathered_[stage] && lowered_.rank_of_stage[stage] == rank ? 1 : 0;
    return count;
  }

 private:
  static uint16_t bit(ActionKind kind) {
    return static_cast<uint16_t>(1U << static_cast<unsigned>(kind));
  }
  size_t place(int64_t stage, int64_t microbatch) const {
    return static_cast<size_t>(stage * lowered_.num_microbatches + microbatch);
  }
  bool has(int64_t stage, ActionKind kind, int64_t microbatch) const {
    return (done_[place(stage, microbatch)] & bit(kind)) != 0;
  }
  bool has_gradient(int64_t stage, int64_t microbatch) const {
    return has(stage, ActionKind::kBackward, microbatch) ||
           has(stage, ActionKind::kBackwardInput, microbatch);
  }
  bool exists(int64_t stage) const { return stage >= 0 && stage < lowered_.num_stages; }
  bool is_local(int64_t stage, int64_t rank) const { return lowered_.rank_of_stage[stage] == rank; }

  std::string misplaced(const Action& action, int64_t rank) const {
    if (!exists(action.stage)) return fmt::format("names no stage of {}", lowered_.num_stages);
    if (!is_local(action.stage, rank))
      return fmt::format("is a stage of rank {}", lowered_.rank_of_stage[action.stage]);
    const bool whole = action.kind == ActionKind::kUnshard || action.kind == ActionKind::kReshard ||
                       action.kind == ActionKind::kReduce;
    const bool in_range = action.microbatch >= 0 && action.microbatch < lowered_.num_microbatches;
    if (whole ? action.microbatch != kWholeStage : !in_range)
      return fmt::format("names no micro-batch of {}", lowered_.num_microbatches);
    return "";
  }

  std::string take_whole_stage(const Action& action) {
    const int64_t stage = action.stage;
    if (action.kind == ActionKind::kReduce) {
      if (reduced_[stage]) return "comes a second time";
      if (weights_done_[stage] != lowered_.num_microbatches) {
        return fmt::format("comes after {} of {} weight gradients", weights_done_[stage],
                           lowered_.num_microbatches);
      }
      reduced_[stage] = true;
      return "";
    }
    const bool gathers = action.kind == ActionKind::kUnshard;
    if (gathered_[stage] == gathers)
      return gathers ? "finds the parameters gathered already" : "finds nothing gathered";
    gathered_[stage] = gathers;
    return "";
  }

  std::string missing_before(const Action& action) const {
    const auto [kind, stage, microbatch] = action;
    const bool uses_parameters = kind == ActionKind::kForward || makes_input_gradient(kind);
    if (gathers_ && uses_parameters && !gathered_[stage])
      return "finds its parameters not gathered";
    const int64_t rank = lowered_.rank_of_stage[stage];
    switch (kind) {
      case ActionKind::kForward:
        if (!exists(stage - 1)) return "";
        if (is_local(stage - 1, rank) ? has(stage - 1, ActionKind::kForward, microbatch)
                                      : has(stage, ActionKind::kReceiveForward, microbatch))
          return "";
        return fmt::format("comes before its input, the output of stage {}", stage - 1);
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        if (has_gradient(stage, microbatch)) return "is a second backward";
        if (!has(stage, ActionKind::kForward, microbatch)) return "comes before its forward";
        if (!exists(stage + 1)) return "";
        if (is_local(stage + 1, rank) ? has_gradient(stage + 1, microbatch)
                                      : has(stage, ActionKind::kReceiveBackward, microbatch))
          return "";
        return fmt::format("comes before its gradient, from stage {}", stage + 1);
      case ActionKind::kBackwardWeight:
        if (has(stage, ActionKind::kBackwardInput, microbatch)) return "";
        return "comes before its backward of the input (I)";
      case ActionKind::kSendForward:
        if (!exists(stage + 1) || is_local(stage + 1, rank)) return "has no rank to send to";
        return has(stage, ActionKind::kForward, microbatch) ? "" : "comes before its forward";
      case ActionKind::kSendBackward:
        if (!exists(stage - 1) || is_local(stage - 1, rank)) return "has no rank to send to";
        return has_gradient(stage, microbatch) ? "" : "comes before its backward";
      case ActionKind::kReceiveForward:
        return exists(stage - 1) && !is_local(stage - 1, rank) ? "" : "has no rank to receive from";
      case ActionKind::kReceiveBackward:
        return exists(stage + 1) && !is_local(stage + 1, rank) ? "" : "has no rank to receive from";
      default:
        return "";
    }
  }

  const Schedule& lowered_;
  std::vector<uint16_t> done_;  // a bit per kind, [stage, micro-batch]
  std::vector<int64_t> weights_done_;
  std::vector<bool> gathered_, reduced_;
  bool gathers_ = false;
};

// Counts what a rank holds; the order of its list is all that matters.
void count_held(RankReport& report, const Action& action, int64_t& live, int64_t& pending) {
  if (action.kind == ActionKind::kForward) ++live;
  if (makes_input_gradient(action.kind)) --live;
  if (action.kind == ActionKind::kBackwardInput) ++pending;
  if (action.kind == ActionKind::kBackwardWeight) --pending;
  report.peak_live_activations = std::max(report.peak_live_activations, live);
  report.peak_pending_weights = std::max(report.peak_pending_weights, pending);
  report.peak_live_and_pending = std::max(report.peak_live_and_pending, live + pending);
}

class Machine {
 public:
  Machine(const Schedule& lowered, const Costs& costs)
      : lowered_(lowered), costs_(costs), stages_(lowered), ranks_(lowered.num_ranks) {
    report_.ranks.resize(lowered.num_ranks);
  }

  Report run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (int64_t rank = 0; rank < lowered_.num_ranks; ++rank) {
        while (step(rank)) progress = true;
      }
    }
    require_end();
    summarize();
    return std::move(report_);
  }

 private:
  struct Rank {
    size_t next = 0;
    double now = 0;
    int64_t live = 0, pending = 0;
  };

  const std::vector<Action>& list(int64_t rank) const { return lowered_.per_rank[rank]; }
  bool ended(int64_t rank) const { return ranks_[rank].next == list(rank).size(); }

  int64_t sender_of(const Action& receive) const {
    const int64_t stage = receive.stage + (receive.kind == ActionKind::kReceiveForward ? -1 : 1);
    return lowered_.rank_of_stage[stage];
  }

  [[noreturn]] void refuse(int64_t rank, const std::string& problem) const {
    const size_t next = ranks_[rank].next;
    throw Error("[pipeline] schedule {}: rank {}, action {}: {} {}", lowered_.name, rank, next,
                to_text(list(rank)[next]), problem);
  }

  // Runs the rank's next action; false when it has to wait or has none.
  bool step(int64_t rank) {
    if (ended(rank)) return false;
    Rank& state = ranks_[rank];
    const Action action = list(rank)[state.next];
    const double start = state.now;
    const bool waits_for_message = is_receive(action.kind);
    if (waits_for_message) {
      // A receive from nowhere is left to the rules.
      const auto arrival = receivable(action) ? arrival_of(action, rank) : start;
      if (!arrival) return false;
      state.now = std::max(start, *arrival);
    }
    if (const std::string problem = stages_.take(action, rank); !problem.empty())
      refuse(rank, problem);
    state.now += costs_.of(action.kind);
    if (is_send(action.kind)) {
      const Action receive = receive_of(action);
      const int64_t receiver = lowered_.rank_of_stage[receive.stage];
      channels_[{rank, receiver}].push_back({receive, state.now + costs_.transfer});
    }
    RankReport& report = report_.ranks[rank];
    report.actions.push_back({action, start, state.now});
    if (!waits_for_message) report.busy += state.now - start;
    count_held(report, action, state.live, state.pending);
    if (action.kind == ActionKind::kUnshard) {
      report.peak_gathered_stages =
          std::max(report.peak_gathered_stages, stages_.num_gathered(rank));
    }
    ++state.next;
    return true;
  }

  bool receivable(const Action& receive) const {
    const int64_t sender = receive.stage + (receive.kind == ActionKind::kReceiveForward ? -1 : 1);
    return receive.stage >= 0 && receive.stage < lowered_.num_stages && sender >= 0 &&
           sender < lowered_.num_stages;
  }

  std::optional<double> arrival_of(const Action& receive, int64_t rank) {
    auto& channel = channels_[{sender_of(receive), rank}];
    if (channel.empty()) return std::nullopt;
    if (channel.front().receive != receive) {
      refuse(rank, fmt::format("is not the next message of rank {}, which is {}",
                               sender_of(receive), to_text(channel.front().receive)));
    }
    const double arrival = channel.front().arrival;
    channel.pop_front();
    return arrival;
  }

  // "rank 1 waits at action 3 (1RECV_F2) for 0SEND_F2, …"
  std::string describe_wait(int64_t rank) const {
    const Action receive = list(rank)[ranks_[rank].next];
    const int64_t sender = sender_of(receive);
    const auto& sends = list(sender);
    const auto send = std::ranges::find_if(sends, [&](const Action& action) {
      return is_send(action.kind) && receive_of(action) == receive;
    });
    const std::string what =
        fmt::format("rank {} waits at action {} ({})", rank, ranks_[rank].next, to_text(receive));
    if (send == sends.end())
      return fmt::format("{} for a message that rank {} never sends", what, sender);
    return fmt::format("{} for action {} ({}) of rank {}", what, send - sends.begin(),
                       to_text(*send), sender);
  }

  void require_end() const {
    std::vector<std::string> waiting;
    for (int64_t rank = 0; rank < lowered_.num_ranks; ++rank) {
      if (!ended(rank)) waiting.push_back(describe_wait(rank));
    }
    if (!waiting.empty()) {
      constexpr size_t kShown = 8;
      const size_t shown = std::min(kShown, waiting.size());
      throw Error("[pipeline] schedule {} would hang: {}{}", lowered_.name,
                  text::join(std::span(waiting).first(shown), "; "),
                  waiting.size() > shown
                      ? fmt::format("; and {} more ranks wait", waiting.size() - shown)
                      : "");
    }
    for (const auto& [pair, channel] : channels_) {
      if (channel.empty()) continue;
      throw Error("[pipeline] schedule {}: rank {} never receives {}, which rank {} sends",
                  lowered_.name, pair.second, to_text(channel.front().receive), pair.first);
    }
    if (const std::string problem = stages_.unfinished(); !problem.empty())
      throw Error("[pipeline] schedule {}: {}", lowered_.name, problem);
  }

  void summarize() {
    for (const Rank& rank : ranks_) report_.makespan = std::max(report_.makespan, rank.now);
    double busy = 0;
    for (RankReport& rank : report_.ranks) {
      busy += rank.busy;
      if (report_.makespan > 0) rank.bubble_share = 1 - rank.busy / report_.makespan;
      double first = report_.makespan, last = 0, computing = 0;
      for (const TimedAction& timed : rank.actions) {
        if (!is_compute(timed.action.kind)) continue;
        first = std::min(first, timed.start);
        last = std::max(last, timed.end);
        computing += timed.end - timed.start;
      }
      rank.idle_inside = std::max(0.0, last - first - computing);
    }
    const double available = report_.makespan * static_cast<double>(lowered_.num_ranks);
    if (available > 0) report_.bubble_share = 1 - busy / available;
  }

  const Schedule& lowered_;
  Costs costs_;
  Stages stages_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int64_t, int64_t>, std::deque<Message>> channels_;  // sender, receiver
  Report report_;
};

}  // namespace

double Costs::of(ActionKind kind) const {
  switch (kind) {
    case ActionKind::kForward:
      return forward;
    case ActionKind::kBackward:
      return backward;
    case ActionKind::kBackwardInput:
      return backward_input;
    case ActionKind::kBackwardWeight:
      return backward_weight;
    case ActionKind::kUnshard:
      return unshard;
    case ActionKind::kReduce:
      return reduce;
    default:
      return 0;
  }
}

double Report::shortest_computation() const {
  double shortest = 0;
  for (const RankReport& rank : ranks) {
    for (const TimedAction& timed : rank.actions) {
      const double length = timed.end - timed.start;
      if (is_compute(timed.action.kind) && length > 0 && (shortest == 0 || length < shortest))
        shortest = length;
    }
  }
  return shortest == 0 ? 1 : shortest;
}

Report simulate(const Schedule& lowered, const Costs& costs) {
  for (const double cost : {costs.forward, costs.backward, costs.backward_input,
                            costs.backward_weight, costs.transfer, costs.unshard, costs.reduce}) {
    if (!(cost >= 0 && cost < 1e12))
      throw Error("[pipeline] a cost of {} — costs are numbers of at least 0", cost);
  }
  return Machine(lowered, costs).run();
}

}  // namespace titan::parallel::pipeline
