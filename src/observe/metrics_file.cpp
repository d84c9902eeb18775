#include "observe/metrics_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace titan::observe {
namespace fs = std::filesystem;
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson number_or_null(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

double number_of(const OrderedJson& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>() : kUnknown;
}

std::optional<double> optional_number(const OrderedJson& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? std::optional<double>(found->get<double>())
                                                  : std::nullopt;
}

// nullopt for an incomplete line and for anything that is no metrics row.
std::optional<StepMetrics> parse_row(std::string_view line) {
  const OrderedJson row = OrderedJson::parse(line, nullptr, false);
  if (!row.is_object()) return std::nullopt;
  const auto step = row.find("step");
  if (step == row.end() || !step->is_number_integer()) return std::nullopt;
  StepMetrics m;
  m.step = step->get<int64_t>();
  m.loss = number_of(row, "loss");
  m.max_loss = number_of(row, "max_loss");
  m.grad_norm = number_of(row, "grad_norm");
  m.lr = number_of(row, "lr");
  m.tokens_per_second = number_of(row, "tokens_per_second");
  m.tflops = number_of(row, "tflops");
  m.mfu = number_of(row, "mfu");
  m.memory_gib = number_of(row, "memory_gib");
  m.memory_percent = number_of(row, "memory_percent");
  m.data_wait_s = number_of(row, "data_wait_s");
  m.end_to_end_s = number_of(row, "step_time_s");
  m.time_s = number_of(row, "time_s");
  const double tokens = number_of(row, "tokens_seen");
  m.tokens_seen = std::isfinite(tokens) ? static_cast<int64_t>(tokens) : 0;
  m.val_loss = optional_number(row, "val_loss");
  m.val_bits_per_byte = optional_number(row, "val_bits_per_byte");
  return m;
}

// The later row of a step wins; validation figures and step figures written as two rows become one.
void put_row(std::map<int64_t, StepMetrics>& rows, StepMetrics row) {
  const auto before = rows.find(row.step);
  if (before == rows.end()) {
    rows.emplace(row.step, row);
    return;
  }
  StepMetrics& kept = before->second;
  const bool only_validated = row.val_loss && std::isnan(row.loss) && std::isnan(row.lr);
  if (!only_validated) {
    if (!row.val_loss) {
      row.val_loss = kept.val_loss;
      row.val_bits_per_byte = kept.val_bits_per_byte;
    }
    kept = row;
    return;
  }
  kept.val_loss = row.val_loss;
  kept.val_bits_per_byte = row.val_bits_per_byte;
}

std::string validation_members(const ValidationMetrics& validation) {
  OrderedJson members;
  members["val_loss"] = number_or_null(validation.loss);
  if (validation.bits_per_byte)
    members["val_bits_per_byte"] = number_or_null(*validation.bits_per_byte);
  const std::string object = members.dump();
  return object.substr(1, object.size() - 2);
}

fs::path first_free_name(const fs::path& folder) {
  for (int64_t i = 1;; ++i) {
    fs::path candidate = folder / fmt::format("metrics.{}.jsonl", i);
    if (!fs::exists(candidate)) return candidate;
  }
}

// The lines of a file that end in a newline, and whether a part of a line follows them.
std::vector<std::string_view> whole_lines(std::string_view content, bool* has_partial) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t end = content.find('\n'); end != std::string_view::npos;
       end = content.find('\n', begin)) {
    lines.push_back(content.substr(begin, end - begin));
    begin = end + 1;
  }
  *has_partial = begin < content.size();
  return lines;
}

}  // namespace

std::string metrics_row(const StepMetrics& m) {
  OrderedJson row;
  row["step"] = m.step;
  row["loss"] = number_or_null(m.loss);
  row["grad_norm"] = number_or_null(m.grad_norm);
  row["lr"] = number_or_null(m.lr);
  row["tokens_per_second"] = number_or_null(m.tokens_per_second);
  row["mfu"] = number_or_null(m.mfu);
  row["memory_gib"] = number_or_null(m.memory_gib);
  row["data_wait_s"] = number_or_null(m.data_wait_s);
  row["time_s"] = number_or_null(m.time_s);
  row["max_loss"] = number_or_null(m.max_loss);
  row["tflops"] = number_or_null(m.tflops);
  row["memory_percent"] = number_or_null(m.memory_percent);
  row["step_time_s"] = number_or_null(m.end_to_end_s);
  row["tokens_seen"] = m.tokens_seen;
  if (m.val_loss) row["val_loss"] = number_or_null(*m.val_loss);
  if (m.val_bits_per_byte) row["val_bits_per_byte"] = number_or_null(*m.val_bits_per_byte);
  return row.dump() + "\n";
}

MetricsHistory read_metrics(const fs::path& file) {
  const std::string content = files::read(file);
  MetricsHistory history;
  std::map<int64_t, StepMetrics> by_step;
  bool has_partial = false;
  for (const std::string_view line : whole_lines(content, &has_partial)) {
    if (text::trim(line).empty()) continue;
    if (const auto row = parse_row(line)) {
      put_row(by_step, *row);
    } else {
      ++history.skipped_lines;
    }
  }
  if (has_partial) ++history.skipped_lines;
  for (auto& [step, row] : by_step) history.rows.push_back(row);
  return history;
}

MetricsFile::MetricsFile(const fs::path& folder, int64_t resumed_step)
    : path_(folder / kMetricsFileName) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure)
    throw EnvironmentError("[metrics] cannot make folder {}: {}", folder.string(),
                           failure.message());
  if (fs::exists(path_) && resumed_step <= 0) {
    fs::rename(path_, first_free_name(folder), failure);
    if (failure)
      throw EnvironmentError("[metrics] cannot set aside {}: {}", path_.string(),
                             failure.message());
  } else if (fs::exists(path_)) {
    const std::string content = files::read(path_);
    std::string kept;
    bool has_partial = false;
    for (const std::string_view line : whole_lines(content, &has_partial)) {
      const auto row = parse_row(line);
      if (!row || row->step > resumed_step) {
        ++dropped_rows_;
        continue;
      }
      kept.append(line).push_back('\n');
      if (std::isfinite(row->time_s)) resumed_time_s_ = row->time_s;
    }
    if (has_partial) ++dropped_rows_;
    if (kept.size() != content.size()) files::write_atomically(path_, kept);
    end_ = static_cast<int64_t>(kept.size());
  }
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0)
    throw EnvironmentError("[metrics] cannot write {}: {}", path_.string(), std::strerror(errno));
}

MetricsFile::~MetricsFile() {
  if (fd_ >= 0) ::close(fd_);
}

void MetricsFile::append(const StepMetrics& metrics) {
  write_at(end_, metrics_row(metrics));
  last_step_ = metrics.step;
}

void MetricsFile::add_validation(const ValidationMetrics& validation, double time_s) {
  const std::string members = validation_members(validation);
  if (last_step_ == validation.step) {
    // Written over the "}\n" of the last row: a kill in between leaves that row whole or as an
    // incomplete last line.
    write_at(end_ - 2, "," + members + "}\n");
    return;
  }
  OrderedJson row;
  row["step"] = validation.step;
  row["time_s"] = number_or_null(time_s);
  std::string line = row.dump();
  line.pop_back();
  write_at(end_, line + "," + members + "}\n");
  last_step_ = validation.step;
}

void MetricsFile::write_at(int64_t offset, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t put =
        ::pwrite(fd_, text.data() + done, text.size() - done, offset + static_cast<int64_t>(done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0)
      throw EnvironmentError("[metrics] cannot write {}: {}", path_.string(), std::strerror(errno));
    done += static_cast<size_t>(put);
  }
  end_ = offset + static_cast<int64_t>(text.size());
}

}  // namespace titan::observe
