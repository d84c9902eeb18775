// Saving a step of a run, and which step is the newest. A step is complete or it does not exist
// (see step_folder.h). Life of a save: space is checked, files are written into step-N.partial and
// flushed, index.json last, one rename commits, then old steps are deleted. Reading: step.h and
// load.h. Which checkpoint a run starts from: load_plan.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "checkpoint/load.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/state.h"
#include "checkpoint/step.h"
#include "checkpoint/step_folder.h"

namespace titan::checkpoint {

struct SaveOptions {
  int64_t keep_latest_k = 0;  // 0 keeps all; 1 is refused
  bool last = false;          // the last save of a run deletes no older step
  std::optional<at::ScalarType> export_dtype =
      std::nullopt;  // floating tensors of the model part are stored as this
  int64_t max_file_bytes = int64_t{4} << 30;
};

struct SaveResult {
  std::filesystem::path folder;
  int64_t bytes = 0;
  std::vector<int64_t> deleted;  // by keep_latest_k
};

// Writes folder/step-N, replacing a complete one of that number. Tensors are read while they are
// written: they must not change meanwhile. Throws EnvironmentError (disk, permissions) with nothing
// left behind, Error for bad options.
SaveResult save(const std::filesystem::path& folder, int64_t step, const Snapshot& snapshot,
                const SaveOptions& options = {});

// The same, of tensors that are made while they are written.
SaveResult save(const std::filesystem::path& folder, int64_t step,
                std::span<const TensorSource> model, std::span<const TensorSource> optimizer,
                const nlohmann::json& state, const SaveOptions& options = {});

// The same, of model tensors that are made while they are written, and without optimizer.
SaveResult save_model(const std::filesystem::path& folder, int64_t step,
                      std::span<const TensorSource> model, const nlohmann::json& state,
                      const SaveOptions& options = {});

// The highest complete step with model and optimizer; nullopt when there is none.
std::optional<int64_t> latest(const std::filesystem::path& folder);

}  // namespace titan::checkpoint
