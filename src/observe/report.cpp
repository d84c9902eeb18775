#include "observe/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "observe/html.h"
#include "observe/report_assets.h"
#include "observe/report_data.h"
#include "observe/report_sections.h"
#include "observe/report_text.h"

namespace titan::observe {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kMostPoints = 3000;  // per curve

std::string chart_js_version() {
  const size_t at = assets::kChartJs.find("Chart.js v");
  if (at == std::string_view::npos) return "?";
  const std::string_view rest = assets::kChartJs.substr(at + 10);
  return std::string(rest.substr(0, rest.find_first_of(" \n\r")));
}

std::string words_json(const ReportText& words) {
  const nlohmann::ordered_json json = {
      {"loss", words.loss},
      {"loss_unit", words.loss_unit},
      {"train", words.train},
      {"smoothed", words.smoothed},
      {"validation", words.validation},
      {"bits_per_byte", words.bits_per_byte},
      {"bits_unit", words.bits_unit},
      {"grad_norm", words.grad_norm},
      {"grad_norm_unit", words.grad_norm_unit},
      {"lr", words.lr},
      {"lr_unit", words.lr_unit},
      {"throughput", words.throughput},
      {"throughput_unit", words.throughput_unit},
      {"mfu", words.mfu},
      {"mfu_unit", words.mfu_unit},
      {"memory", words.memory},
      {"memory_unit", words.memory_unit},
      {"data_wait", words.data_wait},
      {"data_wait_unit", words.data_wait_unit},
      {"step_time", words.step_time},
      {"step_time_unit", words.step_time_unit},
      {"no_values", words.no_values},
      {"steps", words.by_step},
      {"tokens", words.tokens},
      {"hours", words.hours},
      {"minutes", words.minutes},
      {"seconds", words.seconds},
      {"step_title", words.step_number},
  };
  return escape_json(json.dump());
}

const char* status_word(const ReportInput& input, const ReportText& words) {
  if (!input.record) return words.unknown_status;
  switch (input.record->status) {
    case RunStatus::kRunning:
      return words.running;
    case RunStatus::kFinished:
      return words.finished;
    case RunStatus::kInterrupted:
      return words.interrupted;
    case RunStatus::kFailed:
      return words.failed;
  }
  return words.unknown_status;
}

}  // namespace

ReportInput read_run(const fs::path& run_folder) {
  if (!fs::is_directory(run_folder)) {
    throw Error(
        "[report] {} is no folder — give the run folder that training wrote (job.dump_folder)",
        run_folder.string());
  }
  const fs::path metrics = run_folder / kMetricsFileName;
  if (!fs::exists(metrics)) {
    throw Error(
        "[report] {} has no {} — give the run folder that training wrote (job.dump_folder), with "
        "metrics.enable_jsonl on",
        run_folder.string(), kMetricsFileName);
  }
  ReportInput input;
  input.folder = fs::absolute(run_folder).lexically_normal().string();
  input.history = read_metrics(metrics);
  if (input.history.rows.empty()) {
    throw Error(
        "[report] {} holds no logged step ({} lines could not be read) — train at least one step "
        "first",
        metrics.string(), input.history.skipped_lines);
  }
  input.record = read_run_record(run_folder);
  const fs::path generated = run_folder / kGeneratedTextName;
  if (fs::is_regular_file(generated)) input.generated = files::read(generated);
  return input;
}

std::string report_html(const ReportInput& input, Language language) {
  if (assets::kChartJs.empty()) {
    throw EnvironmentError(
        "[report] this titan was built without Chart.js — install libjs-chart.js, or configure "
        "with "
        "-DTITAN_CHART_JS=<chart.min.js>, and build again");
  }
  const ReportText& words = report_text(language);
  const RunTotals totals = run_totals(input);
  const auto rows = thin_rows(input.history.rows, kMostPoints);
  const std::string heading = input.record && !input.record->model.empty()
                                  ? input.record->model
                                  : fs::path(input.folder).filename().string();
  std::string footer =
      fmt::format(fmt::runtime(words.made_by), input.titan_version, chart_js_version());
  if (rows.size() < input.history.rows.size()) {
    footer += " " + fmt::format(fmt::runtime(words.thinned),
                                text::with_commas(static_cast<int64_t>(rows.size())),
                                text::with_commas(static_cast<int64_t>(input.history.rows.size())));
  }
  return fill_template(
      assets::kPage, {{"language", words.html_language},
                      {"page_title", escape_html(heading + " – " + words.title)},
                      {"style", std::string(assets::kStyle)},
                      {"title", words.title},
                      {"heading", escape_html(heading)},
                      {"subtitle", subtitle_html(input)},
                      {"status_class", input.record ? to_string(input.record->status) : "unknown"},
                      {"status", status_word(input, words)},
                      {"notes", notes_html(input, totals, words)},
                      {"tiles", tiles_html(input, totals, words)},
                      {"curves", words.curves},
                      {"axis", words.axis},
                      {"by_step", words.by_step},
                      {"by_tokens", words.by_tokens},
                      {"by_time", words.by_time},
                      {"log_scale", words.log_scale},
                      {"smooth", words.smooth},
                      {"needs_script", words.needs_script},
                      {"sample", sample_html(input, words)},
                      {"summary", words.summary},
                      {"rows", summary_html(input, totals, words)},
                      {"config", config_html(input, words)},
                      {"footer", "<p>" + escape_html(footer) + "</p>"},
                      {"words", words_json(words)},
                      {"run", escape_json(curves_json(rows))},
                      {"chart_js", std::string(assets::kChartJs)},
                      {"script", std::string(assets::kScript)}});
}

}  // namespace titan::observe
