#include "checkpoint/inspect.h"

#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "checkpoint/dtype.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/step.h"

namespace titan::checkpoint {
namespace fs = std::filesystem;
namespace {

int64_t folder_bytes(const fs::path& folder) {
  int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += static_cast<int64_t>(entry.file_size());
  }
  return bytes;
}

// Number of elements and the element types of the model.
struct ModelCount {
  int64_t parameters = 0;
  std::set<std::string> dtypes;

  void add(at::ScalarType dtype, const std::vector<int64_t>& shape) {
    int64_t numel = 1;
    for (const int64_t size : shape) numel *= size;
    parameters += numel;
    dtypes.insert(dtype_name(dtype));
  }
};

ModelCount count_model(const StepInfo& info, StepSummary& summary) {
  ModelCount count;
  if (info.kind == StepKind::kHuggingFace) {
    const HfFolder folder(info.path);
    for (const auto& name : folder.names())
      count.add(folder.find(name)->dtype, folder.find(name)->shape);
    return count;
  }
  const Step step(info.path);
  for (const auto& [name, tensor] : step.index().tensors) {
    if (part_of(name) == Part::kModel) count.add(tensor.dtype, tensor.shape);
  }
  const auto tokens = step.state().find("tokens_seen");
  if (tokens != step.state().end() && tokens->is_number_integer())
    summary.tokens_seen = tokens->get<int64_t>();
  return count;
}

// Appends the message of an Error that `check` throws.
template <class Check>
bool note_problem(std::vector<std::string>& problems, const Check& check) {
  try {
    check();
    return false;
  } catch (const Error& error) {
    problems.emplace_back(error.what());
    return true;
  }
}

void verify_file(const fs::path& folder, const std::string& name, const Index& index,
                 VerifyReport& report) {
  if (!fs::is_regular_file(folder / name))
    throw Error("[checkpoint] {} is missing", (folder / name).string());
  const SafetensorsFile file(folder / name);
  check_against_index(file, name, index);
  for (const auto& [tensor, indexed] : index.tensors) {
    if (indexed.file != name) continue;
    if (!file.tensors().contains(tensor)) {
      report.problems.push_back(
          fmt::format("[checkpoint] {}: tensor '{}' is missing", file.path().string(), tensor));
      continue;
    }
    const std::string_view bytes = file.bytes(tensor);
    ++report.tensors;
    report.bytes += static_cast<int64_t>(bytes.size());
    if (const uint64_t computed = hash::xxh3(bytes); computed != indexed.xxh3) {
      report.problems.push_back(fmt::format(
          "[checkpoint] {}: tensor '{}' is damaged: its bytes have the checksum {}, {} is "
          "stored",
          file.path().string(), tensor, hash::hex(computed), hash::hex(indexed.xxh3)));
    }
  }
}

void verify_hf(const StepInfo& step, VerifyReport& report) {
  report.has_checksums = false;
  note_problem(report.problems,
               [&] { report.tensors = static_cast<int64_t>(HfFolder(step.path).names().size()); });
}

}  // namespace

StepSummary summarize(const StepInfo& step) {
  StepSummary summary;
  summary.bytes = folder_bytes(step.path);
  std::vector<std::string> problems;
  ModelCount count;
  note_problem(problems, [&] { count = count_model(step, summary); });
  if (!problems.empty()) summary.problem = problems.front();
  summary.parameters = count.parameters;
  summary.dtypes =
      text::join(std::vector<std::string>(count.dtypes.begin(), count.dtypes.end()), "+");
  return summary;
}

std::vector<StepInfo> find_steps(const fs::path& path) {
  if (!fs::is_directory(path)) throw Error("[checkpoint] there is no folder {}", path.string());
  if (const auto itself = step_at(path)) return {*itself};
  for (const fs::path& folder : {path, path / "checkpoint"}) {
    if (auto steps = list_steps(folder); !steps.empty()) return steps;
  }
  throw Error(
      "[checkpoint] {} is no checkpoint and holds none — a step folder, a folder of steps or a "
      "run's dump_folder "
      "is needed",
      path.string());
}

std::vector<std::string> incomplete_steps(const fs::path& folder) {
  std::set<std::string> complete;
  for (const auto& step : list_steps(folder)) complete.insert(step.path.filename().string());
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && name.starts_with("step-") && !complete.contains(name))
      names.insert(name);
  }
  return {names.begin(), names.end()};
}

VerifyReport verify(const StepInfo& step) {
  VerifyReport report;
  if (step.kind == StepKind::kHuggingFace) {
    verify_hf(step, report);
    return report;
  }
  Index index;
  if (note_problem(report.problems, [&] { index = read_index(step.path); })) return report;
  for (const auto& [name, bytes] : index.files) {
    note_problem(report.problems,
                 [&, &file = name] { verify_file(step.path, file, index, report); });
  }
  for (const auto& [name, tensor] : index.tensors) {
    if (!index.files.contains(tensor.file)) {
      report.problems.push_back(
          fmt::format("[checkpoint] {}: tensor '{}' is in {}, which the index does not list",
                      step.path.string(), name, tensor.file));
    }
  }
  return report;
}

}  // namespace titan::checkpoint
