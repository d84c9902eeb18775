// Looking at checkpoints without a model: which are there, what they hold, whether they are whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/step_folder.h"

namespace titan::checkpoint {

struct StepSummary {
  int64_t bytes = 0;         // of all files in the folder
  int64_t parameters = 0;    // elements of the model part
  std::string dtypes;        // of the model part: "float32", or "bfloat16+float32"
  int64_t tokens_seen = -1;  // -1: not recorded
  std::string problem;       // why it cannot be used; empty when its files and index agree
};

// Reads the index and the headers, not the values.
StepSummary summarize(const StepInfo& step);

// The steps that `path` means: itself when it is a complete step or Hugging Face folder, else those
// inside it or inside its sub-folder "checkpoint". Throws Error when there are none.
std::vector<StepInfo> find_steps(const std::filesystem::path& path);

// Names of step folders inside `folder` that are not complete: under way, or left by a dead
// process.
std::vector<std::string> incomplete_steps(const std::filesystem::path& folder);

struct VerifyReport {
  int64_t tensors = 0;
  int64_t bytes = 0;          // whose checksums were recomputed
  bool has_checksums = true;  // false for Hugging Face folders: only their structure is checked
  std::vector<std::string>
      problems;  // one line each, naming file and tensor; empty: nothing is damaged
};

// Checks files against the index, and every stored byte against its checksum. Does not stop at the
// first problem.
VerifyReport verify(const StepInfo& step);

}  // namespace titan::checkpoint
