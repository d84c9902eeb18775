// The numbers behind the report's curves and tiles.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "observe/report.h"

namespace titan::observe {

// What the whole run comes to; from the run record where it says so, else from the logged rows.
struct RunTotals {
  int64_t steps = 0;
  int64_t tokens_seen = 0;
  double duration_s = kUnknown;
  double loss = kUnknown;  // of the last logged step
  std::optional<double> first_val_loss;
  std::optional<double> val_loss;
  std::optional<double> val_bits_per_byte;
  double average_tokens_per_second = kUnknown;
  double average_mfu = kUnknown;  // percent
  double peak_memory_gib = kUnknown;
  double data_wait_percent = kUnknown;    // of the time of all steps
  std::optional<int64_t> first_bad_step;  // whose loss is not finite
};

RunTotals run_totals(const ReportInput& input);

// At most `limit` rows of `rows` (at least 4): each stretch of the run keeps the rows with its
// lowest and highest loss and every validated row, so spikes and validations stay visible. First
// and last row are kept.
std::vector<StepMetrics> thin_rows(const std::vector<StepMetrics>& rows, int64_t limit);

// {"train":{"step":[…],"loss":[…],…},"validation":{…}}: columns of numbers with 6 digits and null
// for unknown.
std::string curves_json(const std::vector<StepMetrics>& rows);

}  // namespace titan::observe
