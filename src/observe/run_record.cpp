#include "observe/run_record.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"

namespace titan::observe {
namespace fs = std::filesystem;
namespace {

using RecordJson = nlohmann::ordered_json;

constexpr int64_t kRecordFormat = 1;
constexpr std::array<std::pair<RunStatus, const char*>, 4> kStatusNames = {{
    {RunStatus::kRunning, "running"},
    {RunStatus::kFinished, "finished"},
    {RunStatus::kInterrupted, "interrupted"},
    {RunStatus::kFailed, "failed"},
}};

RunStatus status_of(const std::string& name, const fs::path& file) {
  for (const auto& [status, known] : kStatusNames) {
    if (name == known) return status;
  }
  throw Error("[report] {}: status '{}' is none that titan writes", file.string(), name);
}

// Visits every member with its key, in the order of the file; serves writing and reading.
template <class Record, class Visit>
void visit_record(Record& r, Visit&& visit) {
  visit("description", r.description);
  visit("command", r.command);
  visit("versions", r.versions);
  visit("start_time", r.start_time);
  visit("end_time", r.end_time);
  visit("sessions", r.sessions);
  visit("device_kind", r.device_kind);
  visit("device_name", r.device_name);
  visit("device_count", r.device_count);
  visit("device_memory", r.device_memory);
  visit("threads", r.threads);
  visit("peak_flops", r.peak_flops);
  visit("peak_flops_source", r.peak_flops_source);
  visit("model", r.model);
  visit("model_sizes", r.model_sizes);
  visit("parameters", r.parameters);
  visit("flops_per_token", r.flops_per_token);
  visit("dtype", r.dtype);
  visit("total_steps", r.total_steps);
  visit("global_batch_size", r.global_batch_size);
  visit("seq_len", r.seq_len);
  visit("dataset", r.dataset);
  visit("last_step", r.last_step);
  visit("tokens_seen", r.tokens_seen);
  visit("loss", r.loss);
  visit("first_val_loss", r.first_val_loss);
  visit("val_loss", r.val_loss);
  visit("val_bits_per_byte", r.val_bits_per_byte);
  visit("average_tokens_per_second", r.average_tokens_per_second);
  visit("training_s", r.training_s);
  visit("peak_memory", r.peak_memory);
  visit("error", r.error);
  visit("checkpoint_folder", r.checkpoint_folder);
  visit("tensorboard_folder", r.tensorboard_folder);
  visit("config", r.config);
}

struct WriteMember {
  RecordJson& out;
  void operator()(const char* key, double value) {
    out[key] = std::isfinite(value) ? RecordJson(value) : RecordJson();
  }
  void operator()(const char* key, int64_t value) { out[key] = value; }
  void operator()(const char* key, const std::string& value) { out[key] = value; }
  void operator()(const char* key, const std::optional<double>& value) {
    (*this)(key, value.value_or(kUnknown));
  }
  void operator()(const char* key, const Facts& facts) {
    out[key] = RecordJson::object();
    for (const auto& [name, value] : facts) out[key][name] = value;
  }
};

// An absent key keeps the member's default, so that older files stay readable.
struct ReadMember {
  const RecordJson& in;
  const RecordJson* find(const char* key) const {
    const auto found = in.find(key);
    return found == in.end() || found->is_null() ? nullptr : &*found;
  }
  template <class T>
  void operator()(const char* key, T& value) {
    if (const RecordJson* found = find(key)) value = found->get<T>();
  }
  void operator()(const char* key, std::optional<double>& value) {
    if (const RecordJson* found = find(key)) value = found->get<double>();
  }
  void operator()(const char* key, Facts& facts) {
    const RecordJson* found = find(key);
    if (!found) return;
    for (const auto& [name, value] : found->items())
      facts.emplace_back(name, value.get<std::string>());
  }
};

}  // namespace

std::string to_string(RunStatus status) {
  for (const auto& [known, name] : kStatusNames) {
    if (known == status) return name;
  }
  throw InternalError("a run status without a name");
}

std::optional<RunRecord> read_run_record(const fs::path& run_folder) {
  const fs::path file = run_folder / kRunRecordName;
  if (!fs::exists(file)) return std::nullopt;
  const RecordJson json = RecordJson::parse(files::read(file), nullptr, false);
  if (!json.is_object() || !json.contains("format") || !json["format"].is_number_integer()) {
    throw Error("[report] {} is no run record: it must be a JSON object with a 'format'",
                file.string());
  }
  const auto format = json["format"].get<int64_t>();
  if (format > kRecordFormat) {
    throw Error("[report] {} has format {}, this titan reads up to {} — use a newer titan",
                file.string(), format, kRecordFormat);
  }
  RunRecord record;
  try {
    record.status = status_of(json.value("status", std::string("running")), file);
    visit_record(record, ReadMember{json});
  } catch (const RecordJson::exception& error) {
    throw Error("[report] {} is damaged: {}", file.string(), error.what());
  }
  return record;
}

void write_run_record(const fs::path& run_folder, const RunRecord& record) {
  RecordJson json;
  json["format"] = kRecordFormat;
  json["status"] = to_string(record.status);
  visit_record(record, WriteMember{json});
  std::error_code failure;
  fs::create_directories(run_folder, failure);
  if (failure)
    throw EnvironmentError("[metrics] cannot make folder {}: {}", run_folder.string(),
                           failure.message());
  // Text of users may hold bytes that are no UTF-8; they are replaced rather than refused.
  files::write_atomically(run_folder / kRunRecordName,
                          json.dump(2, ' ', false, RecordJson::error_handler_t::replace) + "\n");
}

RunRecord begin_record(const fs::path& run_folder, RunRecord fresh, bool resumed) {
  if (!resumed) return fresh;
  const auto before = read_run_record(run_folder);
  if (!before) return fresh;
  fresh.start_time = before->start_time;
  fresh.sessions = before->sessions + 1;
  fresh.training_s = before->training_s;
  fresh.first_val_loss = before->first_val_loss;
  fresh.val_loss = before->val_loss;
  fresh.val_bits_per_byte = before->val_bits_per_byte;
  fresh.peak_memory = before->peak_memory;
  return fresh;
}

}  // namespace titan::observe
