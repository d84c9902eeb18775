// The training loop: steps, logging, validation, checkpoints, signals.
#pragma once

#include <string>

#include "observe/run_record.h"
#include "train/job.h"

namespace titan::train {

struct RunContext {
  std::string command;      // as typed, for the run record
  std::string config_text;  // the config in force
  observe::Facts versions;  // titan, torch, compiler
};

// Trains until the last step, the end of the data or a signal. Returns the process's exit code: 0,
// or 130/143 after SIGINT/SIGTERM (the step is finished and, with checkpointing on, saved).
int run(Job& job, const RunContext& context);

}  // namespace titan::train
