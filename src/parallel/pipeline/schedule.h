// Pipeline schedules: per rank, the order in which it computes which stage on which micro-batch.
// make_schedule() knows the published schedules; their lists equal PyTorch's (tests/golden/
// pipeline_schedules.txt). Surprise: an order says nothing about time; waiting follows from the
// data.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/pipeline/action.h"

namespace titan::parallel::pipeline {

struct Schedule {
  std::string name;  // "1F1B", or the file it was read from
  int64_t num_ranks = 0;
  int64_t num_stages = 0;
  int64_t num_microbatches = 0;
  std::vector<int64_t> rank_of_stage;         // [num_stages]
  std::vector<std::vector<Action>> per_rank;  // [num_ranks]; only compute until lower()

  // The stages of one rank, ascending.
  std::vector<int64_t> stages_of_rank(int64_t rank) const;
};

// loop: stage s on rank s % ranks. V: rank r holds the stages r and 2 ranks - 1 - r.
enum class Placement { kLoop, kV };

struct ScheduleRules {
  std::string_view name;  // as written in the config
  Placement placement;
  int64_t default_stages_per_rank;
  std::optional<int64_t> only_stages_per_rank;  // the one legal number, if there is one
  bool needs_csv;                               // has no order of its own
};

std::span<const ScheduleRules> all_schedules();

// `name` in any case. Throws Error with the known names.
const ScheduleRules& schedule_rules(std::string_view name);

// The rank of each stage.
std::vector<int64_t> place_stages(Placement placement, int64_t num_ranks, int64_t stages_per_rank);

// The compute lists of a named schedule. Throws Error, with the nearest legal values, for numbers
// the schedule does not allow and for a schedule that needs a CSV file. Never returns lists that
// can wait for each other.
Schedule make_schedule(std::string_view name, int64_t num_ranks, int64_t stages_per_rank,
                       int64_t num_microbatches);

// The first thing wrong with compute lists; nothing when every stage runs on its one rank, each
// micro-batch exactly once forward and once backward (kBackward, or kBackwardInput then
// kBackwardWeight), in that order. Says nothing about waiting: simulate() does.
struct ScheduleProblem {
  int64_t rank;
  std::optional<int64_t> action;  // place in the rank's list; nothing: something is missing
  std::string text;               // "2B0 comes before its forward", "2B1 is missing"
};
std::optional<ScheduleProblem> find_problem(const Schedule& schedule);

// Throws Error with what find_problem() found.
void require_complete(const Schedule& schedule);

}  // namespace titan::parallel::pipeline
