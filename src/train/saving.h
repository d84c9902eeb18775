// Checkpoints of a training job: where a run starts from, and what it writes when. Every member is
// collective.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "train/gathering.h"
#include "train/job.h"

namespace titan::train {

class Saving {
 public:
  // config_text is stored with each checkpoint. Removes what dead processes left in the folder.
  Saving(Job& job, std::string config_text);

  // Loads what the rules of [checkpoint] say (checkpoint/load_plan.h); returns the step the run
  // goes on after, 0 for a new run. Called once before the first step, also when checkpointing is
  // off (nothing is loaded then).
  int64_t load();

  // Whether [checkpoint] asks for a save after this step.
  bool due(bool last) const;
  // Saves when it is due.
  void after_step(bool last);
  // After a signal: everything, whatever the interval, unless this step is already there.
  void after_interrupt();
  // [checkpoint] create_seed_checkpoint: the initial weights as step 0.
  void seed_checkpoint();

  // Where checkpoints lie; empty when none are written.
  std::filesystem::path folder() const;

 private:
  bool writes() const;
  void save_full(bool last);
  void save_last_model();
  nlohmann::json state_json() const;
  // Calls `write` on rank 0, with the other ranks at its service. Collective.
  void write(const std::function<void(const Gathering&, const nlohmann::json& state)>& write);

  Job& job_;
  std::string config_text_;
  std::filesystem::path folder_;
  int64_t saved_step_ = -1;
};

}  // namespace titan::train
