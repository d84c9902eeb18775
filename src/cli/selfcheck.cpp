// `titan selfcheck`: is this layout the same run as one process? Trains a scaled-down copy of the
// user's model in the user's layout, ranks as threads, beside one process, in float64.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/log.h"
#include "base/world.h"
#include "cli/command.h"
#include "config/help.h"
#include "config/load.h"
#include "models/registry.h"
#include "parallel/recompute_plan.h"
#include "train/layout.h"
#include "train/layout_check.h"

namespace titan::cli {
namespace {

constexpr double kLimit = 1e-11;
constexpr const char* kHelp =
    "titan selfcheck CONFIG.toml [--section.key value …]\n\n"
    "Trains a scaled-down copy of the model in the config's layout, and once more as one process:\n"
    "same seed, same samples, float64, ranks as threads of this process on the CPU. Degrees above "
    "2\n"
    "become 2, sizes become small; schedule, sharding policy, recomputation, document masks "
    "and kind of model stay.\n"
    "Prints the largest relative difference of losses, gradient norms, gradients and parameters.\n"
    "Exit code 1 when one is above 1e-11.\n";

comm::MeshShape scaled_shape(const config::Parallelism& p) {
  const auto two = [](int64_t degree) { return std::min<int64_t>(degree, 2); };
  // -1, the rest of the processes, becomes 2 as well.
  const int64_t shard = p.data_parallel_shard_degree;
  return {.pp = two(p.pipeline_parallel_degree),
          .dp_replicate = two(p.data_parallel_replicate_degree),
          .dp_shard = shard == -1 ? 2 : two(shard),
          .cp = two(p.context_parallel_degree),
          .tp = two(p.tensor_parallel_degree)};
}

models::ModelArgs scaled_args(models::ModelArgs args, int64_t layers) {
  const int64_t group = std::min<int64_t>(args.num_heads / args.num_kv_heads, 2);
  args.num_kv_heads = std::min<int64_t>(args.num_kv_heads, 2);
  args.num_heads = std::max<int64_t>(args.num_kv_heads * group, 2);
  args.head_dim = 6;
  args.dim = 16;
  args.hidden_dim = 26;
  args.vocab_size = 41;  // a prime: no axis divides it
  args.num_layers = layers;
  args.max_seq_len = 24;
  return args;
}

train::LayoutCase scaled_case(const config::JobConfig& config) {
  namespace pipeline = parallel::pipeline;
  const auto& p = config.parallelism;
  train::LayoutCase c;
  c.shape = scaled_shape(p);
  c.schedule = p.pipeline_parallel_schedule;
  int64_t stages = 1;
  if (c.shape.pp > 1) {
    stages = c.shape.pp * pipeline::schedule_rules(c.schedule).default_stages_per_rank;
  }
  c.args = scaled_args(models::resolve(config.model, config.training.seq_len),
                       std::max<int64_t>(stages, 3));
  c.accumulation = 2;
  c.global_batch = c.accumulation * c.shape.data() * std::max<int64_t>(2 * stages, 2);
  c.seq_len = 24;
  c.steps = 10;
  c.documents = {.mask = c.args.block_causal, .reset_positions = config.data.reset_positions};
  c.context_method = train::context_method(p);
  c.head_tail = train::head_tail(p);
  c.overlap_tp = p.enable_async_tensor_parallel;
  c.reshard = train::reshard_of(config);
  c.whole_gradients = config.npu.zero_stage == 1;
  c.offload = config.training.enable_cpu_offload;
  const auto plan = parallel::make_recompute_plan(config.activation_checkpoint, c.args.num_layers);
  for (const auto& kept : plan) {
    if (kept) c.recompute = kept;
  }
  return c;
}

bool print_row(const char* what, double value, const std::string& where) {
  const bool equal = value <= kLimit;
  std::printf("  %-22s %.1e  %s%s\n", what, value, equal ? "equal" : "DIFFERENT",
              equal || where.empty() ? "" : ("  first: " + where).c_str());
  return equal;
}

}  // namespace

int run_selfcheck(Arguments words) {
  if (words.empty() || config::wants_help(words)) {
    std::fputs(kHelp, stdout);
    return words.empty() ? static_cast<int>(ExitCode::kUsage) : 0;
  }
  const auto loaded = config::load(words);
  config::require_runnable(loaded);
  const auto c = scaled_case(loaded.config);
  std::printf("%s %s, scaled down to dim %ld, %ld layers, %ld heads, %ld key/value heads\n",
              c.args.family.c_str(), c.args.flavor.c_str(), static_cast<long>(c.args.dim),
              static_cast<long>(c.args.num_layers), static_cast<long>(c.args.num_heads),
              static_cast<long>(c.args.num_kv_heads));
  std::printf("%s%s%s against one process, %ld steps, float64, limit %.0e:\n",
              comm::describe(c.shape).c_str(), c.shape.pp > 1 ? ", schedule " : "",
              c.shape.pp > 1 ? c.schedule.c_str() : "", static_cast<long>(c.steps), kLimit);
  std::fflush(stdout);
  const auto d = train::difference(train::run_layout(c), train::run_one_process(c));
  bool equal = print_row("loss of every step", d.loss, "");
  equal = print_row("gradient norm, step 1", d.first_norm, "") && equal;
  equal = print_row("gradients of step 1", d.gradient, d.worst_gradient) && equal;
  equal = print_row("parameters at the end", d.parameter, d.worst_parameter) && equal;
  std::printf("%s\n", equal ? "This layout is the same run as one process."
                            : "This layout is NOT the same run: please report it with the config.");
  return equal ? 0 : static_cast<int>(ExitCode::kInternal);
}

}  // namespace titan::cli
