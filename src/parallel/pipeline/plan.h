// From [parallelism] to everything a pipeline run needs: schedule, checked lists, layers of each
// stage.
#pragma once

#include <string>
#include <vector>

#include "config/sections/parallelism.h"
#include "parallel/pipeline/lower.h"
#include "parallel/pipeline/simulate.h"
#include "parallel/pipeline/stages.h"

namespace titan::parallel::pipeline {

struct Plan {
  Schedule compute;
  Schedule lowered;                 // what ranks execute; rank_of_stage says who holds what
  Report report;                    // of `lowered` in unit costs
  std::vector<StageLayers> stages;  // [num_stages]
  std::vector<std::string> warnings;
};

// The schedule named by the config, or read from pipeline_parallel_schedule_csv if that is set (the
// name then only gives rules for the number of stages). Micro-batches: local_batch_size /
// pipeline_parallel_microbatch_size. Throws Error for every broken rule, with numbers. All ranks
// make the same plan from the same config.
Plan make_plan(const config::Parallelism& parallelism, int64_t num_layers, int64_t local_batch_size,
               GatherPolicy policy);

}  // namespace titan::parallel::pipeline
