// From the degrees in [parallelism] and the number of processes to the mesh: every rule that can be
// broken is checked here, in the first second, without talking to another rank.
#pragma once

#include "comm/mesh.h"
#include "config/job_config.h"
#include "models/args.h"
#include "nn/context_attention.h"
#include "train/assembly.h"
#include "train/state.h"

namespace titan::train {

// Throws one Error that lists every broken rule with the numbers and the nearest legal values.
// Rules that need neither the model nor the number of processes are config/rules.h's.
comm::MeshShape mesh_shape(const config::JobConfig& config, const models::ModelArgs& args,
                           int64_t world_size);

// Null without a pipeline. Throws Error for schedules and layers that do not fit.
std::shared_ptr<const Pipeline> make_pipeline(const config::Parallelism& parallelism,
                                              const models::ModelArgs& args,
                                              int64_t local_batch_size);

// When gathered parameters are freed, by fsdp_reshard_after_forward or zero_stage.
Reshard reshard_of(const config::JobConfig& config);
nn::ContextMethod context_method(const config::Parallelism& parallelism);
// Whether each rank gets a chunk from the head and one from the tail of a sequence.
bool head_tail(const config::Parallelism& parallelism);

}  // namespace titan::train
