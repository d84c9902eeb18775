#include "observe/metrics_logger.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "observe/metric_line.h"

namespace titan::observe {
namespace {

// TorchTitan's tags, so that new curves lie over old ones.
Scalars step_scalars(const StepMetrics& m) {
  return {
      {"loss_metrics/global_avg_loss", m.loss},
      {"loss_metrics/global_max_loss", m.max_loss},
      {"grad_norm", m.grad_norm},
      {"throughput(tps)", m.tokens_per_second},
      {"tflops", m.tflops},
      {"mfu(%)", m.mfu},
      {"time_metrics/end_to_end(s)", m.end_to_end_s},
      {"time_metrics/data_loading(s)", m.data_wait_s},
      {"time_metrics/data_loading(%)", 100 * m.data_wait_s / m.end_to_end_s},
      {"memory/max_reserved(GiB)", m.memory_gib},
      {"memory/max_reserved(%)", m.memory_percent},
      {"n_tokens_seen", static_cast<double>(m.tokens_seen)},
      {"lr", m.lr},
  };
}

Scalars validation_scalars(const ValidationMetrics& m) {
  return {
      {"validation_metrics/loss", m.loss},
      {"validation_metrics/bits_per_byte", m.bits_per_byte.value_or(kUnknown)},
      {"validation_metrics/throughput(tps)", m.tokens_per_second},
      {"validation_metrics/memory/max_reserved(GiB)", m.memory_gib},
      {"validation_metrics/memory/max_reserved(%)", m.memory_percent},
  };
}

std::filesystem::path new_tensorboard_folder(const MetricsOptions& options) {
  std::filesystem::path folder =
      options.run_folder / options.tensorboard_folder / timestamp_for_folder();
  if (options.save_for_all_ranks) folder /= fmt::format("rank_{}", options.rank);
  return folder;
}

}  // namespace

MetricsLogger::MetricsLogger(const MetricsOptions& options)
    : options_(options),
      progress_({.total_steps = options.total_steps, .on_terminal = options.on_terminal}) {
  if (options_.writer && options_.enable_jsonl) {
    file_ = std::make_unique<MetricsFile>(options_.run_folder, options_.resumed_step);
    if (file_->dropped_rows() > 0) {
      log::info("metrics.jsonl: dropped {} rows after step {}, which are run again",
                file_->dropped_rows(), options_.resumed_step);
    }
  }
  if (options_.enable_tensorboard && (options_.writer || options_.save_for_all_ranks)) {
    events_ = std::make_unique<EventFile>(new_tensorboard_folder(options_));
  }
}

bool MetricsLogger::should_log(int64_t step) const {
  return step == options_.resumed_step + 1 || step == options_.total_steps ||
         (options_.log_freq > 0 && step % options_.log_freq == 0);
}

void MetricsLogger::log_step(StepMetrics metrics) {
  if (file_) metrics.time_s += file_->resumed_time_s();
  if (options_.writer) {
    progress_.clear();
    log::info("{}", step_line(metrics, options_.color));
  }
  if (file_) file_->append(metrics);
  if (events_) events_->add(metrics.step, step_scalars(metrics));
}

void MetricsLogger::log_validation(const ValidationMetrics& validation, double time_s) {
  if (options_.writer) {
    progress_.clear();
    log::info("{}", validation_line(validation, options_.color));
  }
  if (file_) file_->add_validation(validation, time_s + file_->resumed_time_s());
  if (events_) events_->add(validation.step, validation_scalars(validation));
}

void MetricsLogger::step_done(int64_t step) {
  if (options_.writer) progress_.step_done(step);
}

std::filesystem::path MetricsLogger::metrics_path() const {
  return file_ ? options_.run_folder / kMetricsFileName : std::filesystem::path();
}

std::filesystem::path MetricsLogger::tensorboard_path() const {
  return events_ ? events_->path().parent_path() : std::filesystem::path();
}

}  // namespace titan::observe
