// metrics.jsonl in the run folder: one JSON object a line, one line per logged step, for people's
// own tools and `titan report`. Keys are only ever added, never renamed: step, loss, grad_norm, lr,
// tokens_per_second, mfu (percent), memory_gib, data_wait_s, time_s, max_loss, tflops,
// memory_percent, step_time_s, tokens_seen, and val_loss and val_bits_per_byte where the step was
// validated. An unknown or non-finite value is null.
//
// A file belongs to one run, over all its restarts. A resume from step S keeps the rows up to S and
// drops the later ones, because those steps are run again. A process killed while it wrote leaves
// at most one incomplete last line.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "observe/metrics.h"

namespace titan::observe {

inline constexpr const char* kMetricsFileName = "metrics.jsonl";

// One line with its newline.
std::string metrics_row(const StepMetrics& metrics);

// What a metrics.jsonl holds. Rows are in step order with one row per step (the last one written
// wins); a row that was only validated has a NaN loss.
struct MetricsHistory {
  std::vector<StepMetrics> rows;
  int64_t skipped_lines = 0;  // incomplete or not a metrics row
};

// Never fails on the content of lines; throws Error when the file cannot be read.
MetricsHistory read_metrics(const std::filesystem::path& file);

// Appends rows, each handed to the system at once. Throws EnvironmentError when the disk is full or
// the file cannot be written.
class MetricsFile {
 public:
  // resumed_step 0: a new run; an older file of the same name is kept as metrics.1.jsonl (or .2,
  // …). resumed_step S > 0: goes on behind the rows up to S (see above).
  MetricsFile(const std::filesystem::path& folder, int64_t resumed_step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void append(const StepMetrics& metrics);
  // Adds val_loss to the row of `step` if that is the last row, else appends a row of its own.
  void add_validation(const ValidationMetrics& validation, double time_s);

  // time_s and tokens_seen of the last row kept on a resume; 0 for a new run.
  double resumed_time_s() const { return resumed_time_s_; }
  int64_t dropped_rows() const { return dropped_rows_; }

 private:
  void write_at(int64_t offset, const std::string& text);

  std::filesystem::path path_;
  int fd_ = -1;
  int64_t end_ = 0;         // bytes
  int64_t last_step_ = -1;  // of the row at the end
  double resumed_time_s_ = 0;
  int64_t dropped_rows_ = 0;
};

}  // namespace titan::observe
