// Which layers each pipeline stage holds. Two ways, both TorchTitan's: dealt evenly, with the
// embedding and the output counting as some layers, or listed by name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/sections/parallelism.h"
#include "parallel/pipeline/schedule.h"

namespace titan::parallel::pipeline {

// Stages hold consecutive layers: first_layer … first_layer + num_layers - 1.
struct StageLayers {
  bool embedding = false;  // tok_embeddings
  int64_t first_layer = 0;
  int64_t num_layers = 0;  // may be 0
  bool norm = false;       // the last norm
  bool output = false;

  bool operator==(const StageLayers&) const = default;
};

// Deals `num_layers` layers to `num_stages` stages. The embedding counts as `first_less` layers of
// the first stage, norm and output as `last_less` of the last. (num_layers + first_less +
// last_less) / num_stages layers each, the remainder one by one to the first stages. Throws Error
// with the nearest legal numbers when a stage would hold less than the embedding or the output
// counts for.
std::vector<StageLayers> deal_layers(int64_t num_layers, int64_t num_stages, int64_t first_less,
                                     int64_t last_less);

// From names: tok_embeddings, layers.N, norm, output, one list per stage, in any order within a
// stage. Throws Error unless each module of the model is named once and the stages follow the
// model's order.
std::vector<StageLayers> stages_of_names(const std::vector<std::vector<std::string>>& parts,
                                         int64_t num_layers);
std::vector<std::string> names_of_stage(const StageLayers& stage);

// The number of stages on each rank: from module_fqns_per_model_part, else from
// pipeline_parallel_layers_per_stage, else the schedule's default. Throws Error when they do not
// fit the ranks or the schedule.
int64_t stages_per_rank(const config::Parallelism& parallelism, const ScheduleRules& rules,
                        int64_t num_layers);

// All stages of a model, for a schedule of `num_stages`.
std::vector<StageLayers> make_stages(const config::Parallelism& parallelism, int64_t num_layers,
                                     int64_t num_stages);

}  // namespace titan::parallel::pipeline
