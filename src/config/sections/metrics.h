// [metrics]: what is logged, how often and where to.
#pragma once

#include <cstdint>
#include <string>

#include "config/field.h"

namespace titan::config {

struct Metrics {
  int64_t log_freq = 10;
  bool enable_tensorboard = false;
  bool disable_color_printing = false;
  std::string save_tb_folder = "tb";
  bool save_for_all_ranks = false;
  bool enable_wandb = false;
  bool enable_jsonl = true;
  bool timings = false;

  static constexpr void describe(auto&& field) {
    field("log_freq", &Metrics::log_freq, "log step 1 and every n-th step", at_least(1));
    field("enable_tensorboard", &Metrics::enable_tensorboard, "write TensorBoard event files");
    field("disable_color_printing", &Metrics::disable_color_printing,
          "never colour the log, not even on a terminal");
    field("save_tb_folder", &Metrics::save_tb_folder,
          "folder of the TensorBoard files, below job.dump_folder");
    field("save_for_all_ranks", &Metrics::save_for_all_ranks,
          "every rank writes its metrics, not only the first");
    field("enable_wandb", &Metrics::enable_wandb, "send the metrics to Weights & Biases");
    field("enable_jsonl", &Metrics::enable_jsonl,
          "append one JSON object per logged step to metrics.jsonl in job.dump_folder");
    field("timings", &Metrics::timings,
          "tell after the first step where the time since the command went (--timings)");
  }
};
static_assert(complete<Metrics>(), "describe() of Metrics misses a member");

}  // namespace titan::config
