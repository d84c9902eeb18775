#include "checkpoint/store.h"

#include "base/error.h"
#include "base/files.h"
#include "checkpoint/index.h"

namespace titan::checkpoint {
namespace fs = std::filesystem;
namespace {

SaveResult save_parts(const fs::path& folder, int64_t step, std::span<const TensorSource> model,
                      std::span<const TensorSource> optimizer, const nlohmann::json& state,
                      const SaveOptions& options) {
  check_keep_latest_k(options.keep_latest_k);
  TITAN_CHECK(step >= 0 && options.max_file_bytes > 0, "step {}, {} bytes a file", step,
              options.max_file_bytes);
  // Ill-formed UTF-8 (a path in the config) must not end a run when it saves.
  const std::string state_text =
      state.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  check_free_space(folder, bytes_needed(model) + bytes_needed(optimizer) +
                               2 * static_cast<int64_t>(state_text.size()));
  SaveResult result;
  result.folder = folder / step_name(step);
  PartialFolder partial(result.folder);
  Index index;
  index.step = step;
  index.state = nlohmann::json::parse(state_text);
  add(index, write_safetensors(partial.path(), "model", model, options.max_file_bytes));
  if (!optimizer.empty()) {
    add(index, write_safetensors(partial.path(), "optimizer", optimizer, options.max_file_bytes));
  }
  for (const auto& [name, tensor] : index.tensors) {
    TITAN_CHECK((part_of(name) == Part::kOptimizer) == tensor.file.starts_with("optimizer-"),
                "'{}' was given to the other part", name);
  }
  for (const auto& [name, bytes] : index.files) result.bytes += bytes;
  const std::string text = to_text(index);
  result.bytes += static_cast<int64_t>(text.size());
  files::write_atomically(partial.path() / kIndexFile, text);
  partial.commit();
  if (!options.last) result.deleted = keep_latest(folder, options.keep_latest_k, step);
  return result;
}

}  // namespace

SaveResult save(const fs::path& folder, int64_t step, const Snapshot& snapshot,
                const SaveOptions& options) {
  return save_parts(folder, step, sources_of(snapshot.model, options.export_dtype),
                    sources_of(snapshot.optimizer), snapshot.state, options);
}

SaveResult save(const fs::path& folder, int64_t step, std::span<const TensorSource> model,
                std::span<const TensorSource> optimizer, const nlohmann::json& state,
                const SaveOptions& options) {
  return save_parts(folder, step, model, optimizer, state, options);
}

SaveResult save_model(const fs::path& folder, int64_t step, std::span<const TensorSource> model,
                      const nlohmann::json& state, const SaveOptions& options) {
  return save_parts(folder, step, model, {}, state, options);
}

std::optional<int64_t> latest(const fs::path& folder) {
  std::optional<int64_t> newest;
  for (const auto& step : list_steps(folder)) {
    if (step.kind == StepKind::kFull) newest = step.step;
  }
  return newest;
}

}  // namespace titan::checkpoint
