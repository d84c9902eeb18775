// The one place the training loop tells its figures to: the metric line, metrics.jsonl, TensorBoard
// and the progress line. A rank that is not the writer may call everything too; nothing comes out.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "observe/event_file.h"
#include "observe/metrics.h"
#include "observe/metrics_file.h"
#include "observe/progress.h"

namespace titan::observe {

struct MetricsOptions {
  std::filesystem::path run_folder = {};  // job.dump_folder
  int64_t log_freq = 10;                  // metrics.log_freq
  int64_t total_steps = 0;                // training.steps; 0: not known
  int64_t resumed_step = 0;  // last step of the checkpoint this run goes on from; 0: a new run
  bool writer = true;        // this rank prints and writes metrics.jsonl (rank 0)
  int64_t rank = 0;
  bool enable_jsonl = true;         // metrics.enable_jsonl
  bool enable_tensorboard = false;  // metrics.enable_tensorboard
  std::string tensorboard_folder =
      "tb";  // metrics.save_tb_folder, below run_folder; a folder by date is made in it
  bool save_for_all_ranks =
      false;                 // metrics.save_for_all_ranks: TensorBoard of each rank in rank_N
  bool color = false;        // log::wants_color(1) and not metrics.disable_color_printing
  bool on_terminal = false;  // standard output is one: a live status line
};

class MetricsLogger {
 public:
  // Opens the files. Throws EnvironmentError when the run folder cannot be written.
  explicit MetricsLogger(const MetricsOptions& options);

  // Step 1, the first step after a resume, every log_freq-th and the last one are logged.
  bool should_log(int64_t step) const;

  // Prints and writes one step. time_s counts from this process's start of training; the time of
  // the run before a resume is added here.
  void log_step(StepMetrics metrics);
  // Prints and writes one validation; call it after log_step of the same step. time_s as above.
  void log_validation(const ValidationMetrics& validation, double time_s);
  // After every step, logged or not: the progress line.
  void step_done(int64_t step);
  // Before other code prints a lot, and at the end of training.
  void clear_progress() { progress_.clear(); }

  // Where things lie, for the final summary; empty when not written.
  std::filesystem::path metrics_path() const;
  std::filesystem::path tensorboard_path() const;

 private:
  MetricsOptions options_;
  std::unique_ptr<MetricsFile> file_;
  std::unique_ptr<EventFile> events_;
  Progress progress_;
};

}  // namespace titan::observe
