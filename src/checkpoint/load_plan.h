// Which checkpoint a run starts from, and which parts of it: the rules of [checkpoint], as a
// function of what is on disk.
//   1. The run's own folder holds complete steps: load_step, or the newest one with everything that
//   is wanted. The initial_*
//      keys are without effect then. Step 0 (a seed checkpoint) gives the model only.
//   2. Else initial_load_path (of titan, or of Hugging Face with initial_load_in_hf, whose default
//   is model.hf_assets_path),
//      the model only unless initial_load_model_only is off.
//   3. Else nothing: the run starts from its seed.
// exclude_from_loading removes parts in every case.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/step_folder.h"
#include "config/sections/checkpoint.h"

namespace titan::checkpoint {

struct LoadPlan {
  enum class Source { kNothing, kStep, kHuggingFace };
  Source source = Source::kNothing;
  std::filesystem::path path;  // of the step folder or of the Hugging Face folder
  bool resumes = false;        // path is a step of this run: types and names must match exactly
  bool model = false;
  bool optimizer = false;
  bool lr_scheduler = false;
  bool dataloader = false;
  bool train_state = false;  // step and tokens seen
  std::vector<std::string> warnings;

  bool model_only() const { return !optimizer && !lr_scheduler && !dataloader && !train_state; }
};

// `steps`: list_steps() of the run's folder. Throws Error when load_step is not among them, a step
// lacks what is wanted, or the keys contradict each other. Does not look at the disk.
LoadPlan plan_load(const config::Checkpoint& config, std::span<const StepInfo> steps,
                   const std::filesystem::path& hf_assets_path);

}  // namespace titan::checkpoint
