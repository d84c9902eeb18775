// What a user reads before the first step and after the last one. Pure functions from facts to
// lines; the caller logs them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "observe/flops.h"
#include "observe/memory_forecast.h"
#include "observe/run_record.h"

namespace titan::observe {

struct StartupFacts {
  std::string device_kind;  // cpu, cuda, npu
  std::string device_name;
  int64_t device_memory = 0;  // bytes this process may use
  int64_t threads = 0;        // CPU threads; 0: not said
  std::string model;          // family, "llama3"
  std::string flavor;         // "debugmodel"
  int64_t parameters = 0;
  FlopsPerToken flops;
  double peak_flops = 0;  // 0: not known
  std::string peak_flops_source;
  MemoryForecast memory;
  int64_t local_batch_size = 0;
  int64_t global_batch_size = 0;
  int64_t accumulation_steps = 1;
  int64_t seq_len = 0;
  int64_t total_steps = 0;
  int64_t warmup_steps = 0;
  int64_t first_step = 1;  // this process begins with; above 1 after a resume
};

// TorchTitan's start-up lines where it has one, in its order, with ours between them. The last one
// is "Training starts at step 1".
std::vector<std::string> startup_summary(const StartupFacts& facts);

struct FinalFacts {
  RunRecord record;        // as written at the end
  double process_s = 0;    // this process from its start to now
  double startup_s = 0;    // until the first step began
  double training_s = 0;   // from the first step on, validation and checkpoints included
  int64_t first_step = 1;  // of this process
  std::string run_folder;
  std::string metrics_file;  // empty: not written
};

// Time, average rate, final losses, where things lie; the last line is TorchTitan's "Training
// completed" for a finished run.
std::vector<std::string> final_summary(const FinalFacts& facts);

}  // namespace titan::observe
