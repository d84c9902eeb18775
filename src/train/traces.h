// Traces of whole steps on a schedule: of every `profile_freq` steps the last `profiler_active`
// ones are written as one file, after `profiler_warmup` steps in which tracing wakes up.
#pragma once

#include <cstdint>
#include <filesystem>

#include "config/job_config.h"
#include "device/backend.h"
#include "device/profiler.h"

namespace titan::train {

class StepTraces {
 public:
  // Files: FOLDER/iteration_STEP/rankRANK_trace.json, STEP the last step in it; of an NPU also the
  // folder rankRANK_trace beside it.
  StepTraces(const config::Profiling& settings, std::filesystem::path folder, int64_t rank,
             device::Backend& backend);

  void before_step(int64_t step);
  void after_step(int64_t step);
  // Writes what was traced of a cycle that the run did not finish.
  void end(int64_t last_step);

 private:
  void write(int64_t step);

  config::Profiling settings_;
  std::filesystem::path folder_;
  int64_t rank_;
  device::Backend& backend_;
  device::Profiler profiler_;
  bool holds_step_ = false;  // the trace under way
};

}  // namespace titan::train
