#include "observe/report_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/text.h"
#include "observe/html.h"

namespace titan::observe {
namespace {

constexpr size_t kMostSampleBytes = 20000;  // of generated.txt

std::string local_time(double unix_s) {
  const auto whole = static_cast<std::time_t>(unix_s);
  std::tm local{};
  localtime_r(&whole, &local);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %z", &local);
  return text;
}

// 6163712 -> "6.16 M"
std::string short_count(int64_t value) {
  const auto number = static_cast<double>(value);
  if (value >= 1000000000) return fmt::format("{:.3g} B", number / 1e9);
  if (value >= 1000000) return fmt::format("{:.3g} M", number / 1e6);
  return text::with_commas(value);
}

struct Tile {
  const char* label;
  std::string value;
  std::string detail;
};

// Rows of the summary table; empty values are left out.
class SummaryTable {
 public:
  void add(const char* label, const std::string& value) {
    if (value.empty()) return;
    html_ +=
        fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", label, escape_html(value));
  }
  const std::string& html() const { return html_; }

 private:
  std::string html_;
};

std::string facts_text(const Facts& facts, const char* between) {
  std::string out;
  for (const auto& [name, value] : facts) out += (out.empty() ? "" : ", ") + name + between + value;
  return out;
}

void add_record_rows(SummaryTable& table, const RunRecord& record, const ReportText& words) {
  table.add(words.description, record.description);
  table.add(words.model, record.model);
  if (record.parameters > 0) table.add(words.parameters, text::with_commas(record.parameters));
  table.add(words.sizes, facts_text(record.model_sizes, " "));
  table.add(words.precision, record.dtype);
  const std::string count =
      record.device_count > 1 ? fmt::format("{} x ", record.device_count) : "";
  table.add(words.device, record.device_name.empty() ? "" : count + record.device_name);
  if (record.device_memory > 0) table.add(words.device_memory, text::bytes(record.device_memory));
  if (record.threads > 0) table.add(words.threads, std::to_string(record.threads));
  if (record.flops_per_token > 0)
    table.add(words.flops_per_token, fmt::format("{:.3e}", record.flops_per_token));
  if (record.peak_flops > 0) {
    const std::string source =
        record.peak_flops_source.empty() ? "" : " (" + record.peak_flops_source + ")";
    table.add(words.peak_rate, fmt::format("{:.3e} FLOP/s{}", record.peak_flops, source));
  }
  table.add(words.dataset, record.dataset);
  if (record.global_batch_size > 0) {
    table.add(words.batch, fmt::format(fmt::runtime(words.batch_value),
                                       text::with_commas(record.global_batch_size),
                                       text::with_commas(record.seq_len)));
  }
}

void add_result_rows(SummaryTable& table, const RunTotals& totals, const ReportText& words) {
  table.add(words.steps, text::with_commas(totals.steps));
  if (totals.tokens_seen > 0) table.add(words.tokens_seen, text::with_commas(totals.tokens_seen));
  if (std::isfinite(totals.duration_s))
    table.add(words.duration, text::duration(totals.duration_s));
  if (std::isfinite(totals.average_tokens_per_second)) {
    table.add(words.average_rate, text::with_commas(std::llrint(totals.average_tokens_per_second)));
  }
  if (std::isfinite(totals.average_mfu))
    table.add(words.average_mfu, fmt::format("{:.2f}%", totals.average_mfu));
  if (std::isfinite(totals.peak_memory_gib)) {
    table.add(words.peak_memory, fmt::format("{:.2f} GiB", totals.peak_memory_gib));
  }
  if (std::isfinite(totals.data_wait_percent)) {
    table.add(words.waiting,
              fmt::format(fmt::runtime(words.waiting_value), totals.data_wait_percent));
  }
  table.add(words.train_loss,
            std::isfinite(totals.loss) ? fmt::format("{:.5f}", totals.loss) : "NaN");
  if (totals.val_loss) {
    table.add(words.val_loss,
              fmt::format("{:.5f} → {:.5f}", *totals.first_val_loss, *totals.val_loss));
  }
  if (totals.val_bits_per_byte)
    table.add(words.bits_per_byte, fmt::format("{:.4f}", *totals.val_bits_per_byte));
}

}  // namespace

std::string subtitle_html(const ReportInput& input) {
  if (!input.record) return "";
  std::string text = input.record->device_name;
  if (!input.record->description.empty())
    text = input.record->description + (text.empty() ? "" : " · ") + text;
  if (input.record->start_time > 0)
    text += (text.empty() ? "" : " · ") + local_time(input.record->start_time);
  return fmt::format("<p class=\"subtitle\">{}</p>", escape_html(text));
}

std::string notes_html(const ReportInput& input, const RunTotals& totals, const ReportText& words) {
  std::string html;
  const auto add = [&](const char* kind, const std::string& text) {
    html += fmt::format("<p class=\"note{}\">{}</p>\n", kind, escape_html(text));
  };
  if (input.record && !input.record->error.empty())
    add(" bad", fmt::format("{}: {}", words.error, input.record->error));
  if (totals.first_bad_step) {
    add(" bad",
        fmt::format(fmt::runtime(words.bad_loss), text::with_commas(*totals.first_bad_step)));
  }
  if (input.history.skipped_lines > 0) {
    add("", fmt::format(fmt::runtime(words.skipped_lines), input.history.skipped_lines));
  }
  return html;
}

std::string tiles_html(const ReportInput& input, const RunTotals& totals, const ReportText& words) {
  std::vector<Tile> tiles;
  const auto at_start = [&](double value) {
    return fmt::format(fmt::runtime(words.at_start), fmt::format("{:.3f}", value));
  };
  if (totals.val_loss) {
    tiles.push_back({words.val_loss, fmt::format("{:.3f}", *totals.val_loss),
                     at_start(*totals.first_val_loss)});
  }
  if (totals.val_bits_per_byte) {
    tiles.push_back(
        {words.bits_per_byte, fmt::format("{:.3f}", *totals.val_bits_per_byte), words.validation});
  }
  const auto& rows = input.history.rows;
  const auto first =
      std::ranges::find_if(rows, [](const auto& row) { return std::isfinite(row.loss); });
  tiles.push_back({words.train_loss,
                   std::isfinite(totals.loss) ? fmt::format("{:.3f}", totals.loss) : "NaN",
                   first == rows.end() ? "" : at_start(first->loss)});
  if (std::isfinite(totals.average_tokens_per_second)) {
    const std::string detail =
        std::isfinite(totals.average_mfu) ? fmt::format("MFU {:.1f}%", totals.average_mfu) : "";
    tiles.push_back({words.average_rate,
                     text::with_commas(std::llrint(totals.average_tokens_per_second)), detail});
  }
  if (std::isfinite(totals.duration_s)) {
    std::string steps = text::with_commas(totals.steps);
    if (input.record && input.record->total_steps > 0)
      steps += " / " + text::with_commas(input.record->total_steps);
    tiles.push_back({words.duration, text::duration(totals.duration_s),
                     fmt::format("{} {}", steps, words.steps_lower)});
  }
  if (input.record && input.record->parameters > 0) {
    tiles.push_back({words.parameters, short_count(input.record->parameters), input.record->model});
  }
  std::string html;
  for (const auto& tile : tiles) {
    html +=
        fmt::format("<div class=\"card tile\"><p>{}</p><p class=\"value\">{}</p><p>{}</p></div>\n",
                    tile.label, escape_html(tile.value), escape_html(tile.detail));
  }
  return html;
}

std::string sample_html(const ReportInput& input, const ReportText& words) {
  if (!input.generated || text::trim(*input.generated).empty()) return "";
  std::string_view sample = text::trim(*input.generated);
  const bool cut = sample.size() > kMostSampleBytes;
  if (cut)
    sample = sample.substr(0, text::complete_utf8_prefix(sample.substr(0, kMostSampleBytes)));
  return fmt::format(
      "<section>\n<h2>{}</h2>\n<div class=\"card\"><p class=\"source\">{}</p><pre "
      "class=\"sample\">{}{}</pre></div>\n"
      "</section>",
      words.sample, words.sample_note, escape_html(sample), cut ? " …" : "");
}

std::string summary_html(const ReportInput& input, const RunTotals& totals,
                         const ReportText& words) {
  SummaryTable table;
  if (input.record) add_record_rows(table, *input.record, words);
  add_result_rows(table, totals, words);
  if (input.record) {
    const RunRecord& record = *input.record;
    if (record.start_time > 0) table.add(words.started, local_time(record.start_time));
    if (record.end_time > 0) table.add(words.ended, local_time(record.end_time));
    if (record.sessions > 1) table.add(words.sessions, std::to_string(record.sessions));
    table.add(words.command, record.command);
    table.add(words.versions, facts_text(record.versions, " "));
    table.add(words.checkpoint, record.checkpoint_folder);
    table.add(words.tensorboard, record.tensorboard_folder);
  }
  table.add(words.folder, input.folder);
  return table.html();
}

std::string config_html(const ReportInput& input, const ReportText& words) {
  if (!input.record || input.record->config.empty()) return "";
  return fmt::format(
      "<section>\n<details class=\"card\"><summary>{}</summary><pre>{}</pre></details>\n</section>",
      words.config, escape_html(input.record->config));
}

}  // namespace titan::observe
