#include "parallel/pipeline/schedule.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "parallel/pipeline/orders.h"

namespace titan::parallel::pipeline {
namespace {

constexpr ScheduleRules kSchedules[] = {
    {"GPipe", Placement::kLoop, 1, 1, false},
    {"1F1B", Placement::kLoop, 1, 1, false},
    {"Interleaved1F1B", Placement::kLoop, 2, std::nullopt, false},
    {"LoopedBFS", Placement::kLoop, 2, std::nullopt, false},
    {"InterleavedZeroBubble", Placement::kLoop, 2, std::nullopt, false},
    {"ZBVZeroBubble", Placement::kV, 2, 2, false},
    {"DualPipeV", Placement::kV, 2, 2, false},
    {"PipelineScheduleSingle", Placement::kLoop, 1, 1, true},
    {"PipelineScheduleMulti", Placement::kLoop, 2, std::nullopt, true},
};

// More actions than this are a slip of the pen, not a schedule.
constexpr int64_t kMostForwards = int64_t{1} << 24;

// Interleaved schedules run in max(1, microbatches / ranks) rounds of equal size.
int64_t num_rounds(int64_t num_microbatches, int64_t num_ranks) {
  return std::max<int64_t>(1, num_microbatches / num_ranks);
}

bool rounds_are_even(int64_t num_microbatches, int64_t num_ranks) {
  return num_microbatches % num_rounds(num_microbatches, num_ranks) == 0;
}

void require_even_rounds(std::string_view name, int64_t num_ranks, int64_t num_microbatches) {
  if (rounds_are_even(num_microbatches, num_ranks)) return;
  int64_t below = num_microbatches, above = num_microbatches;
  while (!rounds_are_even(below, num_ranks)) --below;
  while (!rounds_are_even(above, num_ranks)) ++above;
  throw Error(
      "[pipeline] {} on {} ranks runs {} micro-batches in {} rounds, which must be of equal size — "
      "take {} or {} micro-batches, or any multiple of {}",
      name, num_ranks, num_microbatches, num_rounds(num_microbatches, num_ranks), below, above,
      num_ranks);
}

void require_numbers(const ScheduleRules& rules, int64_t num_ranks, int64_t stages_per_rank,
                     int64_t num_microbatches) {
  if (num_ranks < 1 || stages_per_rank < 1 || num_microbatches < 1) {
    throw Error(
        "[pipeline] {} with {} ranks, {} stages per rank and {} micro-batches — each must be at "
        "least 1",
        rules.name, num_ranks, stages_per_rank, num_microbatches);
  }
  if (rules.only_stages_per_rank.value_or(stages_per_rank) != stages_per_rank) {
    throw Error("[pipeline] {} has exactly {} per rank, not {}{}", rules.name,
                *rules.only_stages_per_rank == 1 ? "1 stage" : "2 stages", stages_per_rank,
                *rules.only_stages_per_rank == 1
                    ? " — Interleaved1F1B, LoopedBFS and InterleavedZeroBubble take more"
                    : " — Interleaved1F1B, LoopedBFS and InterleavedZeroBubble take any number");
  }
  if (num_ranks > kMostForwards || stages_per_rank > kMostForwards / num_ranks ||
      num_microbatches > kMostForwards / (num_ranks * stages_per_rank)) {
    throw Error(
        "[pipeline] {} with {} ranks, {} stages per rank and {} micro-batches is more than {} "
        "forwards — take fewer micro-batches",
        rules.name, num_ranks, stages_per_rank, num_microbatches, text::with_commas(kMostForwards));
  }
}

std::vector<Action> order_of_rank(std::string_view name, const OrderOf& of) {
  if (name == "GPipe") return breadth_first_order(of, false);
  if (name == "LoopedBFS") return breadth_first_order(of, true);
  if (name == "ZBVZeroBubble") return zbv_order(of);
  if (name == "DualPipeV") return dual_pipe_v_order(of);
  if (name == "1F1B") {
    return one_forward_one_backward_order(
        of, {.group = of.num_microbatches, .ahead = 1, .split_backward = false});
  }
  const bool zero_bubble = name == "InterleavedZeroBubble";
  TITAN_CHECK(zero_bubble || name == "Interleaved1F1B", "no order for schedule {}", name);
  const int64_t group = of.num_microbatches / num_rounds(of.num_microbatches, of.num_ranks);
  return one_forward_one_backward_order(
      of, {.group = group, .ahead = zero_bubble ? 1 : 2, .split_backward = zero_bubble});
}

}  // namespace

std::vector<int64_t> Schedule::stages_of_rank(int64_t rank) const {
  std::vector<int64_t> stages;
  for (int64_t stage = 0; stage < num_stages; ++stage) {
    if (rank_of_stage[stage] == rank) stages.push_back(stage);
  }
  return stages;
}

std::span<const ScheduleRules> all_schedules() { return kSchedules; }

const ScheduleRules& schedule_rules(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& rules : kSchedules) {
    if (text::lower_ascii(rules.name) == text::lower_ascii(name)) return rules;
    names.emplace_back(rules.name);
  }
  const auto hint = text::nearest(name, names);
  throw Error("[pipeline] there is no schedule '{}'{} — known are {}", name,
              hint ? fmt::format(", did you mean '{}'?", *hint) : "", text::join(names, ", "));
}

std::vector<int64_t> place_stages(Placement placement, int64_t num_ranks, int64_t stages_per_rank) {
  std::vector<int64_t> rank_of_stage(num_ranks * stages_per_rank);
  for (int64_t stage = 0; stage < std::ssize(rank_of_stage); ++stage) {
    const int64_t place = stage % num_ranks;
    const bool upwards = placement == Placement::kV && stage / num_ranks % 2 == 1;
    rank_of_stage[stage] = upwards ? num_ranks - 1 - place : place;
  }
  return rank_of_stage;
}

Schedule make_schedule(std::string_view name, int64_t num_ranks, int64_t stages_per_rank,
                       int64_t num_microbatches) {
  const ScheduleRules& rules = schedule_rules(name);
  if (rules.needs_csv) {
    throw Error(
        "[pipeline] {} takes its order from a file — set "
        "parallelism.pipeline_parallel_schedule_csv, or choose another schedule",
        rules.name);
  }
  require_numbers(rules, num_ranks, stages_per_rank, num_microbatches);
  if (rules.name == "Interleaved1F1B" || rules.name == "InterleavedZeroBubble")
    require_even_rounds(rules.name, num_ranks, num_microbatches);
  if (rules.name == "DualPipeV" && num_microbatches < 2 * num_ranks) {
    throw Error(
        "[pipeline] DualPipeV on {} ranks needs at least {} micro-batches, one for each of its "
        "stages, not {} — ZBVZeroBubble takes any number",
        num_ranks, 2 * num_ranks, num_microbatches);
  }
  Schedule schedule{.name = std::string(rules.name),
                    .num_ranks = num_ranks,
                    .num_stages = num_ranks * stages_per_rank,
                    .num_microbatches = num_microbatches,
                    .rank_of_stage = place_stages(rules.placement, num_ranks, stages_per_rank)};
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    schedule.per_rank.push_back(
        order_of_rank(rules.name, {rank, num_ranks, stages_per_rank, num_microbatches}));
  }
  require_complete(schedule);
  return schedule;
}

namespace {

// What has happened to each (stage, micro-batch).
class Completeness {
 public:
  explicit Completeness(const Schedule& schedule)
      : schedule_(schedule),
        done_(schedule.num_stages * schedule.num_microbatches * kNumActionKinds, false) {}

  // Returns what is wrong with the action, or "".
  std::string take(const Action& action, int64_t rank) {
    if (!is_compute(action.kind)) return "is no computation";
    if (action.stage < 0 || action.stage >= schedule_.num_stages)
      return fmt::format("names no stage, there are {}", schedule_.num_stages);
    if (action.microbatch < 0 || action.microbatch >= schedule_.num_microbatches)
      return fmt::format("names no micro-batch, there are {}", schedule_.num_microbatches);
    if (schedule_.rank_of_stage[action.stage] != rank)
      return fmt::format("is a stage of rank {}", schedule_.rank_of_stage[action.stage]);
    if (done(action, action.kind)) return "comes a second time";
    if (action.kind != ActionKind::kForward && !done(action, ActionKind::kForward))
      return "comes before its forward";
    if (action.kind == ActionKind::kBackwardWeight && !done(action, ActionKind::kBackwardInput))
      return "comes before its backward of the input (I)";
    const bool halves =
        done(action, ActionKind::kBackwardInput) || done(action, ActionKind::kBackwardWeight);
    if (action.kind == ActionKind::kBackward && halves) return "comes besides I and W";
    if (action.kind == ActionKind::kBackwardInput && done(action, ActionKind::kBackward))
      return "comes besides B";
    done_[place(action, action.kind)] = true;
    return "";
  }

  // The first action that is missing, or nothing.
  std::optional<Action> missing() const {
    for (int64_t stage = 0; stage < schedule_.num_stages; ++stage) {
      for (int64_t microbatch = 0; microbatch < schedule_.num_microbatches; ++microbatch) {
        const Action forward{ActionKind::kForward, stage, microbatch};
        if (!done(forward, forward.kind)) return forward;
        if (done(forward, ActionKind::kBackward) || done(forward, ActionKind::kBackwardWeight))
          continue;
        const bool half = done(forward, ActionKind::kBackwardInput);
        return Action{half ? ActionKind::kBackwardWeight : ActionKind::kBackward, stage,
                      microbatch};
      }
    }
    return std::nullopt;
  }

 private:
  size_t place(const Action& action, ActionKind kind) const {
    return static_cast<size_t>((action.stage * schedule_.num_microbatches + action.microbatch) *
                                   kNumActionKinds +
                               static_cast<int64_t>(kind));
  }
  bool done(const Action& action, ActionKind kind) const { return done_[place(action, kind)]; }

  const Schedule& schedule_;
  std::vector<bool> done_;
};

}  // namespace

std::optional<ScheduleProblem> find_problem(const Schedule& schedule) {
  TITAN_CHECK(std::ssize(schedule.rank_of_stage) == schedule.num_stages &&
                  std::ssize(schedule.per_rank) == schedule.num_ranks,
              "a schedule of {} stages on {} ranks has {} places and {} lists", schedule.num_stages,
              schedule.num_ranks, schedule.rank_of_stage.size(), schedule.per_rank.size());
  Completeness completeness(schedule);
  for (int64_t rank = 0; rank < schedule.num_ranks; ++rank) {
    const auto& list = schedule.per_rank[rank];
    for (int64_t i = 0; i < std::ssize(list); ++i) {
      const std::string problem = completeness.take(list[i], rank);
      if (!problem.empty())
        return ScheduleProblem{rank, i, fmt::format("{} {}", to_text(list[i]), problem)};
    }
  }
  if (const auto missing = completeness.missing()) {
    return ScheduleProblem{schedule.rank_of_stage[missing->stage], std::nullopt,
                           fmt::format("{} is missing", to_text(*missing))};
  }
  return std::nullopt;
}

void require_complete(const Schedule& schedule) {
  const auto problem = find_problem(schedule);
  if (!problem) return;
  throw Error("[pipeline] schedule {}: rank {}{}: {}", schedule.name, problem->rank,
              problem->action ? fmt::format(", action {}", *problem->action) : "", problem->text);
}

}  // namespace titan::parallel::pipeline
