#include "parallel/pipeline/plan.h"

#include <algorithm>

#include "base/error.h"
#include "parallel/pipeline/csv.h"

namespace titan::parallel::pipeline {
namespace {

int64_t microbatches_of(const config::Parallelism& parallelism, int64_t local_batch_size) {
  const int64_t size = parallelism.pipeline_parallel_microbatch_size;
  if (size >= 1 && local_batch_size >= size && local_batch_size % size == 0)
    return local_batch_size / size;
  int64_t below = std::clamp<int64_t>(size, 1, local_batch_size);
  while (local_batch_size % below != 0) --below;
  throw Error(
      "[pipeline] parallelism.pipeline_parallel_microbatch_size is {}, which does not divide "
      "training.local_batch_size {} — take {}",
      size, local_batch_size, below);
}

Schedule schedule_from_csv(const config::Parallelism& parallelism, const ScheduleRules& rules,
                           int64_t num_layers, int64_t num_microbatches) {
  Schedule schedule = read_csv(*parallelism.pipeline_parallel_schedule_csv);
  if (schedule.num_ranks != parallelism.pipeline_parallel_degree) {
    throw Error(
        "[pipeline] {} has rows for {} ranks, but parallelism.pipeline_parallel_degree is {}",
        schedule.name, schedule.num_ranks, parallelism.pipeline_parallel_degree);
  }
  if (schedule.num_microbatches != num_microbatches) {
    throw Error(
        "[pipeline] {} is for {} micro-batches, but a step has {} — set training.local_batch_size "
        "to {}",
        schedule.name, schedule.num_microbatches, num_microbatches,
        schedule.num_microbatches * parallelism.pipeline_parallel_microbatch_size);
  }
  if (parallelism.pipeline_parallel_layers_per_stage) {
    const int64_t wanted = schedule.num_ranks * stages_per_rank(parallelism, rules, num_layers);
    if (wanted != schedule.num_stages) {
      throw Error(
          "[pipeline] {} has {} stages, but parallelism.pipeline_parallel_layers_per_stage {} "
          "makes "
          "{} — leave it out, the file says how many",
          schedule.name, schedule.num_stages, *parallelism.pipeline_parallel_layers_per_stage,
          wanted);
    }
  }
  return schedule;
}

}  // namespace

Plan make_plan(const config::Parallelism& parallelism, int64_t num_layers, int64_t local_batch_size,
               GatherPolicy policy) {
  const ScheduleRules& rules = schedule_rules(parallelism.pipeline_parallel_schedule);
  const int64_t num_microbatches = microbatches_of(parallelism, local_batch_size);
  Plan plan;
  if (!parallelism.pipeline_parallel_schedule_csv.value_or("").empty()) {
    plan.compute = schedule_from_csv(parallelism, rules, num_layers, num_microbatches);
  } else {
    plan.compute = make_schedule(rules.name, parallelism.pipeline_parallel_degree,
                                 stages_per_rank(parallelism, rules, num_layers), num_microbatches);
  }
  plan.stages = make_stages(parallelism, num_layers, plan.compute.num_stages);
  plan.lowered = lower(plan.compute, policy);
  plan.report = simulate(plan.lowered);
  if (num_microbatches < plan.compute.num_stages) {
    plan.warnings.push_back(fmt::format(
        "{} micro-batches are fewer than the {} pipeline stages: the ranks idle {:.0f}% of a step",
        num_microbatches, plan.compute.num_stages, 100 * plan.report.bubble_share));
  }
  return plan;
}

}  // namespace titan::parallel::pipeline
