#include "train/run_facts.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "models/model.h"
#include "observe/flops.h"
#include "observe/memory_forecast.h"
#include "ops/cross_entropy.h"
#include "parallel/recompute_plan.h"

namespace titan::train {
namespace {

std::string dtype_text(const Job& job) {
  const std::string parameters = job.config.training.dtype;
  if (job.parameter_dtype == job.compute_dtype) return parameters;
  return fmt::format("{} compute, {} parameters", job.config.training.mixed_precision_param,
                     parameters);
}

observe::Facts model_sizes(const models::ModelArgs& a) {
  const auto number = [](int64_t value) { return std::to_string(value); };
  return {{"dim", number(a.dim)},
          {"layers", number(a.num_layers)},
          {"heads", number(a.num_heads)},
          {"kv heads", number(a.num_kv_heads)},
          {"head dim", number(a.head_dim)},
          {"hidden dim", number(a.hidden_dim)},
          {"vocabulary", number(a.vocab_size)},
          {"tied", a.tied ? "yes" : "no"}};
}

observe::FlopsPerToken flops(const Job& job) {
  const auto& a = job.state.args();
  const auto count = models::count_parameters(a);
  return observe::flops_per_token({.parameters = count.total,
                                   .embedding_parameters = count.embedding,
                                   .num_layers = a.num_layers,
                                   .num_heads = a.num_heads,
                                   .head_dim = a.head_dim,
                                   .seq_len = job.config.training.seq_len,
                                   .tied = a.tied});
}

observe::MemoryForecast memory_forecast(const Job& job) {
  const auto& a = job.state.args();
  const auto& training = job.config.training;
  const auto plan = parallel::make_recompute_plan(job.config.activation_checkpoint, a.num_layers);
  const int64_t tokens = training.local_batch_size * training.seq_len;
  return observe::forecast_memory(
      {.parameters = models::count_parameters(a).total,
       .parameter_bytes = static_cast<int64_t>(c10::elementSize(job.parameter_dtype)),
       .compute_bytes = static_cast<int64_t>(c10::elementSize(job.compute_dtype)),
       .offloaded = training.enable_cpu_offload && !job.backend->device().is_cpu(),
       .tokens = tokens,
       .num_layers = a.num_layers,
       .recomputed_layers = std::ranges::count(plan, std::optional(ops::Kept::kNothing)),
       .dim = a.dim,
       .num_heads = a.num_heads,
       .num_kv_heads = a.num_kv_heads,
       .head_dim = a.head_dim,
       .hidden_dim = a.hidden_dim,
       .vocab_size = a.vocab_size,
       .loss_chunk_tokens = ops::loss_chunk_tokens(tokens, a.vocab_size, training.loss_chunk_tokens,
                                                   job.backend->device().is_cpu())});
}

}  // namespace

observe::RunRecord run_record(Job& job, const RunContext& context) {
  const auto& config = job.config;
  const auto& args = job.state.args();
  const auto peak = job.backend->peak_flops(job.compute_dtype);
  observe::RunRecord record;
  record.description = config.job.description;
  record.command = context.command;
  record.config = context.config_text;
  record.versions = context.versions;
  record.start_time = unix_time();
  record.device_kind = job.backend->name();
  record.device_name = job.backend->device_name();
  record.device_memory = job.backend->memory().capacity;
  record.threads = at::get_num_threads();
  record.peak_flops = peak.per_second;
  record.peak_flops_source = peak.source;
  record.model = args.family + " " + args.flavor;
  record.model_sizes = model_sizes(args);
  record.parameters = models::count_parameters(args).total;
  record.flops_per_token = flops(job).total();
  record.dtype = dtype_text(job);
  record.total_steps = job.total_steps;
  record.global_batch_size =
      config.training.local_batch_size * job.accumulation_steps * job.state.mesh.shape.data();
  record.seq_len = config.training.seq_len;
  record.dataset = job.loader->dataset().name;
  return record;
}

observe::StartupFacts startup_facts(const Job& job, const observe::RunRecord& record) {
  const auto& args = job.state.args();
  return {.device_kind = record.device_kind,
          .device_name = record.device_name,
          .device_memory = record.device_memory,
          .threads = record.threads,
          .model = args.family,
          .flavor = args.flavor,
          .parameters = record.parameters,
          .flops = flops(job),
          .peak_flops = record.peak_flops,
          .peak_flops_source = record.peak_flops_source,
          .memory = memory_forecast(job),
          .local_batch_size = job.config.training.local_batch_size,
          .global_batch_size = record.global_batch_size,
          .accumulation_steps = job.accumulation_steps,
          .seq_len = record.seq_len,
          .total_steps = job.total_steps,
          .warmup_steps = job.state.schedule.warmup_steps,
          .first_step = job.state.step + 1};
}

}  // namespace titan::train
