#include "observe/report_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace titan::observe {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

bool is_step(const StepMetrics& row) {
  return !(row.val_loss && std::isnan(row.loss) && std::isnan(row.lr));
}

// Means over the steps a row stands for, without the first row, which pays for warming up, unless
// it is the only one.
struct Means {
  double tokens_per_second = kUnknown;
  double mfu = kUnknown;
  double data_wait_percent = kUnknown;
};

Means means_of(const std::vector<StepMetrics>& rows) {
  std::vector<const StepMetrics*> steps;
  for (const auto& row : rows) {
    if (is_step(row)) steps.push_back(&row);
  }
  const size_t begin = steps.size() > 1 ? 1 : 0;
  double seconds = 0, tokens = 0, mfu_seconds = 0, wait = 0;
  for (size_t i = begin; i < steps.size(); ++i) {
    const StepMetrics& row = *steps[i];
    if (!std::isfinite(row.end_to_end_s)) continue;
    const auto count = static_cast<double>(i == 0 ? row.step : row.step - steps[i - 1]->step);
    const double span = row.end_to_end_s * count;
    seconds += span;
    if (std::isfinite(row.tokens_per_second)) tokens += row.tokens_per_second * span;
    if (std::isfinite(row.mfu)) mfu_seconds += row.mfu * span;
    if (std::isfinite(row.data_wait_s)) wait += row.data_wait_s * count;
  }
  if (seconds <= 0) return {};
  return {.tokens_per_second = tokens > 0 ? tokens / seconds : kUnknown,
          .mfu = mfu_seconds > 0 ? mfu_seconds / seconds : kUnknown,
          .data_wait_percent = 100 * wait / seconds};
}

void take_from_rows(RunTotals& totals, const std::vector<StepMetrics>& rows) {
  for (const auto& row : rows) {
    totals.steps = std::max(totals.steps, row.step);
    totals.tokens_seen = std::max(totals.tokens_seen, row.tokens_seen);
    if (std::isfinite(row.time_s)) totals.duration_s = row.time_s;
    if (is_step(row)) {
      totals.loss = row.loss;
      if (!std::isfinite(row.loss) && !totals.first_bad_step) totals.first_bad_step = row.step;
    }
    if (std::isfinite(row.memory_gib) && !(totals.peak_memory_gib > row.memory_gib)) {
      totals.peak_memory_gib = row.memory_gib;
    }
    if (row.val_loss) {
      if (!totals.first_val_loss) totals.first_val_loss = row.val_loss;
      totals.val_loss = row.val_loss;
      totals.val_bits_per_byte = row.val_bits_per_byte;
    }
  }
  const Means means = means_of(rows);
  totals.average_tokens_per_second = means.tokens_per_second;
  totals.average_mfu = means.mfu;
  totals.data_wait_percent = means.data_wait_percent;
}

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : "null";
}

// Collects named columns of one object.
class Columns {
 public:
  template <class Get>
  void add(const char* name, const std::vector<StepMetrics>& rows, Get&& get) {
    if (!text_.empty()) text_ += ",\n";
    text_ += fmt::format("\"{}\":[", name);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i > 0) text_ += ',';
      text_ += number(get(rows[i]));
    }
    text_ += ']';
  }
  std::string object() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

// A row that was only validated says nothing of tokens; they grow evenly with the steps.
std::vector<StepMetrics> with_tokens(std::vector<StepMetrics> rows) {
  double per_step = 0;
  for (const auto& row : rows) {
    if (row.step > 0 && row.tokens_seen > 0) {
      per_step = static_cast<double>(row.tokens_seen) / static_cast<double>(row.step);
    }
  }
  for (auto& row : rows) {
    if (row.tokens_seen == 0)
      row.tokens_seen = std::llround(per_step * static_cast<double>(row.step));
  }
  return rows;
}

}  // namespace

RunTotals run_totals(const ReportInput& input) {
  RunTotals totals;
  take_from_rows(totals, input.history.rows);
  if (!input.record) return totals;
  const RunRecord& record = *input.record;
  if (record.status == RunStatus::kRunning) return totals;
  // The record's average is that of the last session; over several the rows say more.
  if (record.sessions == 1 && std::isfinite(record.average_tokens_per_second)) {
    totals.average_tokens_per_second = record.average_tokens_per_second;
  }
  if (record.training_s > 0) totals.duration_s = record.training_s;
  const double recorded_peak = static_cast<double>(record.peak_memory) / kGiB;
  // A device's peak may be counted anew after each logged step: the rows know more than the end.
  if (recorded_peak > 0 && !(totals.peak_memory_gib > recorded_peak)) {
    totals.peak_memory_gib = recorded_peak;
  }
  if (record.last_step > 0) totals.steps = record.last_step;
  if (record.tokens_seen > 0) totals.tokens_seen = record.tokens_seen;
  if (record.val_loss) {
    totals.val_loss = record.val_loss;
    totals.val_bits_per_byte = record.val_bits_per_byte;
  }
  return totals;
}

std::vector<StepMetrics> thin_rows(const std::vector<StepMetrics>& rows, int64_t limit) {
  const auto count = static_cast<int64_t>(rows.size());
  if (count <= limit) return rows;
  std::set<int64_t> kept = {0, count - 1};
  for (int64_t i = 0; i < count; ++i) {
    if (rows[i].val_loss) kept.insert(i);
  }
  const int64_t stretches = std::max<int64_t>(1, (limit - static_cast<int64_t>(kept.size())) / 2);
  for (int64_t s = 0; s < stretches; ++s) {
    const int64_t begin = s * count / stretches;
    const int64_t end = (s + 1) * count / stretches;
    int64_t lowest = begin, highest = begin;
    for (int64_t i = begin; i < end; ++i) {
      if (std::isnan(rows[i].loss)) continue;
      if (!(rows[i].loss >= rows[lowest].loss)) lowest = i;
      if (!(rows[i].loss <= rows[highest].loss)) highest = i;
    }
    kept.insert({lowest, highest});
  }
  std::vector<StepMetrics> thinned;
  for (const int64_t i : kept) thinned.push_back(rows[i]);
  return thinned;
}

std::string curves_json(const std::vector<StepMetrics>& all_rows) {
  const std::vector<StepMetrics> rows = with_tokens(all_rows);
  std::vector<StepMetrics> steps, validations;
  std::ranges::copy_if(rows, std::back_inserter(steps), is_step);
  std::ranges::copy_if(rows, std::back_inserter(validations),
                       [](const auto& row) { return row.val_loss.has_value(); });

  const auto add_axes = [](Columns& columns, const std::vector<StepMetrics>& of) {
    columns.add("step", of, [](const auto& row) { return static_cast<double>(row.step); });
    columns.add("tokens", of, [](const auto& row) { return static_cast<double>(row.tokens_seen); });
    columns.add("time", of, [](const auto& row) { return row.time_s; });
  };
  Columns train;
  add_axes(train, steps);
  train.add("loss", steps, [](const auto& row) { return row.loss; });
  train.add("grad_norm", steps, [](const auto& row) { return row.grad_norm; });
  train.add("lr", steps, [](const auto& row) { return row.lr; });
  train.add("tokens_per_second", steps, [](const auto& row) { return row.tokens_per_second; });
  train.add("mfu", steps, [](const auto& row) { return row.mfu; });
  train.add("memory_gib", steps, [](const auto& row) { return row.memory_gib; });
  train.add("data_wait_ms", steps, [](const auto& row) { return 1000 * row.data_wait_s; });
  train.add("step_ms", steps, [](const auto& row) { return 1000 * row.end_to_end_s; });
  Columns validation;
  add_axes(validation, validations);
  validation.add("loss", validations, [](const auto& row) { return *row.val_loss; });
  validation.add("bits_per_byte", validations,
                 [](const auto& row) { return row.val_bits_per_byte.value_or(kUnknown); });
  return fmt::format("{{\"train\":{},\n\"validation\":{}}}", train.object(), validation.object());
}

}  // namespace titan::observe
