#include "config/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/numbers.h"
#include "base/text.h"
#include "config/compatibility.h"

namespace titan::config {
namespace {

using Problems = std::vector<Problem>;

// Sequences of one micro-batch over all data-parallel ranks, as far as the degrees are written
// down.
int64_t micro_batch(const JobConfig& config) {
  const auto& axes = config.parallelism;
  return config.training.local_batch_size * axes.data_parallel_replicate_degree *
         std::max<int64_t>(axes.data_parallel_shard_degree, 1);
}

void check_batch(const JobConfig& config, Problems& problems) {
  const auto& training = config.training;
  const int64_t global = training.global_batch_size;
  const int64_t micro = micro_batch(config);
  if (global > 0 && global % micro != 0) {
    problems.push_back(
        {"training.global_batch_size",
         fmt::format("training.global_batch_size = {} is not a multiple of local_batch_size {} "
                     "times the data-parallel degree {} — use {}",
                     global, training.local_batch_size, micro / training.local_batch_size,
                     nearest_multiples(global, micro))});
  }
  const auto streams = config.data.virtual_streams;
  const int64_t step = global > 0 ? global : micro;
  if (streams && *streams % step != 0) {
    problems.push_back({"data.virtual_streams",
                        fmt::format("data.virtual_streams = {} is not a multiple of the global "
                                    "batch {} — use {}",
                                    *streams, step, nearest_multiples(*streams, step))});
  }
}

// Each tensor- and context-parallel rank gets one piece of a sequence, with head-tail balance two.
void check_sequence(const char* key, int64_t seq_len, const Parallelism& axes, Problems& problems) {
  const int64_t tp = axes.tensor_parallel_degree;
  const int64_t cp = axes.context_parallel_degree;
  const bool two = cp > 1 && axes.context_parallel_load_balancer == "headtail";
  const int64_t pieces = tp * cp * (two ? 2 : 1);
  if (seq_len % pieces == 0) return;
  problems.push_back({key, fmt::format("{} = {} is not a multiple of tensor_parallel_degree {} x "
                                       "context_parallel_degree {}{} — use {}",
                                       key, seq_len, tp, cp, two ? " x 2 (headtail)" : "",
                                       nearest_multiples(seq_len, pieces))});
}

void check_parallelism(const JobConfig& config, Problems& problems) {
  const auto& axes = config.parallelism;
  const int64_t tp = axes.tensor_parallel_degree;
  check_sequence("training.seq_len", config.training.seq_len, axes, problems);
  if (config.validation.enable) {
    check_sequence("validation.seq_len", config.validation.seq_len, axes, problems);
  }
  const int64_t etp = axes.expert_tensor_parallel_degree;
  // llama4_17bx16e and 17bx128e of TorchTitan set both to 8.
  if (etp != 1 && etp != tp) {
    problems.push_back({"parallelism.expert_tensor_parallel_degree",
                        fmt::format("parallelism.expert_tensor_parallel_degree = {} — use 1 or "
                                    "tensor_parallel_degree {}",
                                    etp, tp)});
  }
  const int64_t micro = axes.pipeline_parallel_microbatch_size;
  if (axes.pipeline_parallel_degree > 1 && config.training.local_batch_size % micro != 0) {
    problems.push_back({"parallelism.pipeline_parallel_microbatch_size",
                        fmt::format("parallelism.pipeline_parallel_microbatch_size = {} does not "
                                    "divide training.local_batch_size {}",
                                    micro, config.training.local_batch_size)});
  }
  if (config.comm.rank.value_or(0) >= config.comm.world_size.value_or(INT64_MAX)) {
    problems.push_back({"comm.rank", fmt::format("comm.rank = {} must be below comm.world_size {}",
                                                 *config.comm.rank, *config.comm.world_size)});
  }
}

void check_checkpoint(const JobConfig& config, Problems& problems) {
  const auto& checkpoint = config.checkpoint;
  if (checkpoint.last_save_in_hf && !checkpoint.last_save_model_only) {
    problems.push_back(
        {"checkpoint.last_save_in_hf",
         "checkpoint.last_save_in_hf needs checkpoint.last_save_model_only = true: a "
         "Hugging Face folder has no place for optimizer states"});
  }
  if (checkpoint.initial_load_in_hf && !checkpoint.initial_load_model_only) {
    problems.push_back({"checkpoint.initial_load_in_hf",
                        "checkpoint.initial_load_in_hf needs checkpoint.initial_load_model_only = "
                        "true: a Hugging Face folder has no optimizer states"});
  }
}

void check_recomputation(const JobConfig& config, Problems& problems) {
  const auto& option = config.activation_checkpoint.selective_ac_option;
  const bool number =
      !option.empty() && option.size() < 10 &&
      std::ranges::all_of(option, [](unsigned char c) { return std::isdigit(c); }) &&
      std::stoll(option) > 0;
  if (option != "op" && !number) {
    problems.push_back({"activation_checkpoint.selective_ac_option",
                        fmt::format("activation_checkpoint.selective_ac_option expects \"op\" or a "
                                    "whole number above 0 in quotes, but got \"{}\"",
                                    option)});
  }
}

void check_profiling(const JobConfig& config, Problems& problems) {
  const auto& profiling = config.profiling;
  const int64_t needed = profiling.profiler_active + profiling.profiler_warmup;
  if (profiling.enable_profiling && profiling.profile_freq < needed) {
    problems.push_back({"profiling.profile_freq",
                        fmt::format("profiling.profile_freq = {} is shorter than profiler_warmup + "
                                    "profiler_active — use at least {}",
                                    profiling.profile_freq, needed)});
  }
}

void check_comm(const JobConfig& config, Problems& problems) {
  if (config.comm.mode != "fake_backend") return;
  if (!config.comm.world_size) {
    problems.push_back({"comm.mode",
                        "comm.mode = \"fake_backend\" needs the number of ranks to pretend — set "
                        "comm.world_size"});
  }
  if (config.checkpoint.enable) {
    problems.push_back({"checkpoint.enable",
                        "comm.mode = \"fake_backend\" computes numbers without meaning, which "
                        "must not be saved — set checkpoint.enable = false"});
  }
}

void check_model(const JobConfig& config, Problems& problems) {
  const auto& model = config.model;
  const auto families = known_families();
  if (std::ranges::find(families, std::string_view(model.name)) == families.end()) {
    const std::vector<std::string> names(families.begin(), families.end());
    const auto hint = text::nearest(model.name, names);
    problems.push_back(
        {"model.name",
         fmt::format("model.name = \"{}\" is no model family{} — known: {}", model.name,
                     hint ? fmt::format(", did you mean \"{}\"?", *hint) : "",
                     text::join(names, ", "))});
  }
  const auto& args = model.args;
  if (args.n_heads && args.n_kv_heads && *args.n_heads % *args.n_kv_heads != 0) {
    problems.push_back({"model.args.n_kv_heads",
                        fmt::format("model.args.n_kv_heads = {} does not divide n_heads {}",
                                    *args.n_kv_heads, *args.n_heads)});
  }
  if (args.dim && args.n_heads && !args.head_dim && *args.dim % *args.n_heads != 0) {
    problems.push_back(
        {"model.args.dim",
         fmt::format("model.args.dim = {} is not a multiple of n_heads {} — use {}, or "
                     "set head_dim",
                     *args.dim, *args.n_heads, nearest_multiples(*args.dim, *args.n_heads))});
  }
  if (args.head_dim && *args.head_dim % 2 != 0) {
    problems.push_back(
        {"model.args.head_dim",
         fmt::format("model.args.head_dim = {} is odd — rotary embeddings need pairs, "
                     "use {}",
                     *args.head_dim, *args.head_dim + 1)});
  }
}

void check_converters(const JobConfig& config, Problems& problems) {
  static const std::vector<std::string> kKnown = {"quantize.linear.float8",
                                                  "quantize.grouped_mm.float8",
                                                  "quantize.linear.mx", "quantize.grouped_mm.mx"};
  std::string first_kind;
  for (const auto& name : config.model.converters) {
    if (std::ranges::find(kKnown, name) == kKnown.end()) {
      const auto hint = text::nearest(name, kKnown);
      problems.push_back(
          {"model.converters", fmt::format("model.converters names \"{}\"{} — known: {}", name,
                                           hint ? fmt::format(", did you mean \"{}\"?", *hint) : "",
                                           text::join(kKnown, ", "))});
      continue;
    }
    const std::string kind = name.substr(name.rfind('.') + 1);
    if (first_kind.empty()) first_kind = kind;
    if (kind != first_kind) {
      problems.push_back(
          {"model.converters", "model.converters mixes float8 and mx — use one of them"});
    }
  }
}

void check_precision(const JobConfig& config, Problems& problems) {
  const auto& training = config.training;
  if (training.mixed_precision_param == "float16" && training.dtype == "bfloat16") {
    problems.push_back({"training.mixed_precision_param",
                        "training.mixed_precision_param = \"float16\" with training.dtype = "
                        "\"bfloat16\" loses range and precision — set dtype to \"float32\""});
  }
}

}  // namespace

std::vector<Problem> broken_rules(const JobConfig& config) {
  Problems problems;
  check_batch(config, problems);
  check_parallelism(config, problems);
  check_checkpoint(config, problems);
  check_recomputation(config, problems);
  check_profiling(config, problems);
  check_comm(config, problems);
  check_model(config, problems);
  check_converters(config, problems);
  check_precision(config, problems);
  return problems;
}

std::vector<Problem> doubtful_settings(const JobConfig& config) {
  Problems doubts;
  const int64_t total = config.lr_scheduler.total_steps.value_or(config.training.steps);
  if (config.lr_scheduler.warmup_steps > total) {
    doubts.push_back({"lr_scheduler.warmup_steps",
                      fmt::format("lr_scheduler.warmup_steps = {} is cut to the {} steps of the "
                                  "schedule: the peak is reached only at its end",
                                  config.lr_scheduler.warmup_steps, total)});
  }
  const auto& training = config.training;
  if (training.dtype != "float32" && training.mixed_precision_param != training.dtype &&
      training.mixed_precision_param != Training{}.mixed_precision_param) {
    doubts.push_back({"training.mixed_precision_param",
                      fmt::format("training.mixed_precision_param = \"{}\" is without effect: with "
                                  "training.dtype = \"{}\" the computation has that dtype",
                                  training.mixed_precision_param, training.dtype)});
  }
  const auto& recompute = config.activation_checkpoint;
  if (recompute.checkpoint_ratio && recompute.mode == "none") {
    doubts.push_back(
        {"activation_checkpoint.checkpoint_ratio",
         "activation_checkpoint.checkpoint_ratio is without effect: mode is \"none\""});
  }
  if (config.checkpoint.load_only && !config.checkpoint.enable) {
    doubts.push_back({"checkpoint.load_only",
                      "checkpoint.load_only is without effect: checkpoint.enable is false"});
  }
  return doubts;
}

}  // namespace titan::config
