// [parallelism]: degrees of the mesh's axes and how each is used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/field.h"

namespace titan::config {

struct Parallelism {
  int64_t data_parallel_replicate_degree = 1;
  int64_t data_parallel_shard_degree = -1;
  std::string fsdp_reshard_after_forward = "default";
  int64_t tensor_parallel_degree = 1;
  bool disable_loss_parallel = false;
  bool enable_async_tensor_parallel = false;
  int64_t pipeline_parallel_degree = 1;
  std::optional<std::vector<std::vector<std::string>>> module_fqns_per_model_part;
  int64_t pipeline_parallel_first_stage_less_layers = 1;
  int64_t pipeline_parallel_last_stage_less_layers = 1;
  std::optional<int64_t> pipeline_parallel_layers_per_stage;
  std::string pipeline_parallel_schedule = "1F1B";
  std::optional<std::string> pipeline_parallel_schedule_csv = "";
  int64_t pipeline_parallel_microbatch_size = 1;
  bool pipeline_parallel_expert_parallel_overlap = true;
  int64_t context_parallel_degree = 1;
  std::optional<std::string> context_parallel_load_balancer = "headtail";
  std::string context_parallel_rotate_method = "allgather";
  int64_t expert_parallel_degree = 1;
  int64_t expert_tensor_parallel_degree = 1;
  std::string expert_parallel_comm_backend = "standard";

  static constexpr void describe(auto&& field) {
    field("data_parallel_replicate_degree", &Parallelism::data_parallel_replicate_degree,
          "replicas of the (sharded) model", between(1, 65536));
    field("data_parallel_shard_degree", &Parallelism::data_parallel_shard_degree,
          "ranks that share one copy of the parameters; -1: all that are left",
          Check{.least = 1, .most = 65536, .also = -1});
    field("fsdp_reshard_after_forward", &Parallelism::fsdp_reshard_after_forward,
          "free gathered parameters after the forward pass; default: unless a pipeline is used",
          one_of("default|always|never"));
    field("tensor_parallel_degree", &Parallelism::tensor_parallel_degree,
          "ranks that split each matrix", between(1, 65536));
    field("disable_loss_parallel", &Parallelism::disable_loss_parallel,
          "gather the logits over the tensor-parallel ranks before the loss");
    field("enable_async_tensor_parallel", &Parallelism::enable_async_tensor_parallel,
          "overlap tensor-parallel communication with the matrix products");
    field("pipeline_parallel_degree", &Parallelism::pipeline_parallel_degree,
          "ranks of the pipeline", between(1, 65536));
    field("module_fqns_per_model_part", &Parallelism::module_fqns_per_model_part,
          "modules of each pipeline stage, in order");
    field("pipeline_parallel_first_stage_less_layers",
          &Parallelism::pipeline_parallel_first_stage_less_layers,
          "layers the embedding counts for when layers are dealt to stages", at_least(0));
    field("pipeline_parallel_last_stage_less_layers",
          &Parallelism::pipeline_parallel_last_stage_less_layers,
          "layers the output counts for when layers are dealt to stages", at_least(0));
    field("pipeline_parallel_layers_per_stage", &Parallelism::pipeline_parallel_layers_per_stage,
          "layers per stage; absent: one stage per rank, or two for looped schedules", at_least(1));
    field("pipeline_parallel_schedule", &Parallelism::pipeline_parallel_schedule,
          "name of the pipeline schedule",
          Check{.choices = "1F1B|GPipe|Interleaved1F1B|LoopedBFS|InterleavedZeroBubble|"
                           "ZBVZeroBubble|DualPipeV|PipelineScheduleSingle|PipelineScheduleMulti",
                .any_case = true});
    field("pipeline_parallel_schedule_csv", &Parallelism::pipeline_parallel_schedule_csv,
          "file with a schedule of its own");
    field("pipeline_parallel_microbatch_size", &Parallelism::pipeline_parallel_microbatch_size,
          "sequences per pipeline micro-batch; must divide training.local_batch_size", at_least(1));
    field("pipeline_parallel_expert_parallel_overlap",
          &Parallelism::pipeline_parallel_expert_parallel_overlap,
          "overlap expert exchange with other micro-batches (DualPipeV)");
    field("context_parallel_degree", &Parallelism::context_parallel_degree,
          "ranks that split each sequence", between(1, 65536));
    field("context_parallel_load_balancer", &Parallelism::context_parallel_load_balancer,
          "how a sequence is dealt to the ranks; None: in order", one_of("headtail|ptrr"));
    field("context_parallel_rotate_method", &Parallelism::context_parallel_rotate_method,
          "how keys and values reach the other ranks: gathered, round a ring (alltoall), or whole "
          "sequences of some heads (ulysses)",
          one_of("allgather|alltoall|ulysses"));
    field("expert_parallel_degree", &Parallelism::expert_parallel_degree,
          "ranks that share the experts of a layer", between(1, 65536));
    field("expert_tensor_parallel_degree", &Parallelism::expert_tensor_parallel_degree,
          "ranks that split each expert; 1 or tensor_parallel_degree", between(1, 65536));
    field("expert_parallel_comm_backend", &Parallelism::expert_parallel_comm_backend,
          "how tokens reach their experts", one_of("standard|deepep"));
  }
};
static_assert(complete<Parallelism>(), "describe() of Parallelism misses a member");

}  // namespace titan::config
