#include "train/layout.h"

#include <algorithm>

#include "base/error.h"
#include "base/numbers.h"
#include "base/text.h"
#include "models/sharding.h"

namespace titan::train {
namespace {

using Problems = std::vector<std::string>;

// The degrees, with dp_shard = -1 worked out.
comm::MeshShape degrees(const config::Parallelism& p, int64_t world, Problems& problems) {
  comm::MeshShape shape{.pp = p.pipeline_parallel_degree,
                        .dp_replicate = p.data_parallel_replicate_degree,
                        .dp_shard = p.data_parallel_shard_degree,
                        .cp = p.context_parallel_degree,
                        .tp = p.tensor_parallel_degree};
  const int64_t others = shape.pp * shape.dp_replicate * shape.cp * shape.tp;
  const std::string product = fmt::format(
      "data_parallel_replicate_degree {} x context_parallel_degree {} x tensor_parallel_degree {} "
      "x pipeline_parallel_degree {}",
      shape.dp_replicate, shape.cp, shape.tp, shape.pp);
  if (shape.dp_shard == -1) {
    shape.dp_shard = std::max<int64_t>(world / others, 1);
    if (world % others != 0 || world < others) {
      problems.push_back(fmt::format("{} = {} does not divide the {} processes — start {}", product,
                                     others, world, nearest_multiples(world, others)));
    }
  } else if (shape.world() != world) {
    problems.push_back(
        fmt::format("{} x data_parallel_shard_degree {} = {}, but there are {} processes — start "
                    "{}, or set data_parallel_shard_degree = -1",
                    product, shape.dp_shard, shape.world(), world, shape.world()));
  }
  return shape;
}

// The gradient of a tied weight is summed between the first and the last rank.
void check_tied_ends(const parallel::pipeline::Schedule& schedule) {
  const int64_t first = schedule.rank_of_stage.front(), last = schedule.rank_of_stage.back();
  const int64_t end = schedule.num_ranks - 1;
  if (first == last || (std::min(first, last) == 0 && std::max(first, last) == end)) return;
  throw Error(
      "[pipeline] {} puts the first stage on rank {} and the last on rank {}, but the model's "
      "embedding is also its output — put the two on ranks 0 and {}, or on one",
      schedule.name, first, last, end);
}

void check_early_step(const config::JobConfig& config, const comm::MeshShape& shape,
                      Problems& problems) {
  if (!config.optimizer.early_step_in_backward) return;
  if (shape.pp > 1) {
    problems.push_back(fmt::format(
        "optimizer.early_step_in_backward excludes pipeline_parallel_degree {}, whose gradients "
        "are complete after the last micro-batch only — leave it off",
        shape.pp));
  }
  if (config.training.dtype == "float32" && config.training.mixed_precision_param == "float16") {
    problems.push_back(
        "optimizer.early_step_in_backward excludes mixed_precision_param float16, where a step is "
        "undone when any gradient overflows — use bfloat16");
  }
}

}  // namespace

std::shared_ptr<const Pipeline> make_pipeline(const config::Parallelism& parallelism,
                                              const models::ModelArgs& args,
                                              int64_t local_batch_size) {
  namespace pipeline = parallel::pipeline;
  if (parallelism.pipeline_parallel_degree == 1) return nullptr;
  auto result = std::make_shared<Pipeline>();
  // The runner of a stage gathers its parameters by itself.
  result->plan = pipeline::make_plan(parallelism, args.num_layers, local_batch_size,
                                     pipeline::GatherPolicy::kNever);
  result->microbatch_size = parallelism.pipeline_parallel_microbatch_size;
  for (const auto& stage : result->plan.stages) {
    result->parts.push_back(
        {stage.embedding, stage.first_layer, stage.num_layers, stage.norm, stage.output});
  }
  for (const auto& actions : result->plan.compute.per_rank) {
    for (const auto& action : actions) {
      result->splits_backward |= action.kind == pipeline::ActionKind::kBackwardInput;
    }
  }
  if (args.tied) check_tied_ends(result->plan.compute);
  return result;
}

nn::ContextMethod context_method(const config::Parallelism& parallelism) {
  const auto& method = parallelism.context_parallel_rotate_method;
  if (method == "alltoall") return nn::ContextMethod::kRing;
  return method == "ulysses" ? nn::ContextMethod::kUlysses : nn::ContextMethod::kAllGather;
}

bool head_tail(const config::Parallelism& parallelism) {
  return parallelism.context_parallel_load_balancer == "headtail";
}

Reshard reshard_of(const config::JobConfig& config) {
  // zero_stage speaks of the same mechanism in other words.
  if (config.npu.zero_stage == 3) return Reshard::kAlways;
  if (config.npu.zero_stage == 1 || config.npu.zero_stage == 2) return Reshard::kNever;
  const auto& policy = config.parallelism.fsdp_reshard_after_forward;
  if (policy == "always") return Reshard::kAlways;
  return policy == "never" ? Reshard::kNever : Reshard::kDefault;
}

comm::MeshShape mesh_shape(const config::JobConfig& config, const models::ModelArgs& args,
                           int64_t world_size) {
  Problems problems;
  const comm::MeshShape shape = degrees(config.parallelism, world_size, problems);
  for (const auto& problem : models::tensor_parallel_problems(args, shape.tp)) {
    problems.push_back(problem);
  }
  const bool dealt = head_tail(config.parallelism);
  if (shape.cp > 1 && problems.empty()) {
    // Ranks can differ by one head.
    for (const int64_t tp_rank : {int64_t{0}, shape.tp - 1}) {
      const int64_t heads = comm::balanced_part(args.num_heads, shape.tp, tp_rank).count;
      const auto found = nn::context_problems(context_method(config.parallelism), dealt, shape.cp,
                                              config.training.seq_len, heads);
      problems.insert(problems.end(), found.begin(), found.end());
      if (!found.empty()) break;
    }
  }
  check_early_step(config, shape, problems);
  const int64_t global = config.training.global_batch_size;
  const int64_t step = config.training.local_batch_size * shape.data();
  if (global > 0 && global % step != 0) {
    problems.push_back(fmt::format(
        "training.global_batch_size = {} is not a multiple of local_batch_size {} x {} data-"
        "parallel ranks — use {}",
        global, config.training.local_batch_size, shape.data(), nearest_multiples(global, step)));
  }
  if (!problems.empty()) throw Error("[parallelism] {}", text::join(problems, "; "));
  return shape;
}

}  // namespace titan::train
