// Assembly of a run from its config: device, tokenizer, data, model, optimizer, checkpoint.
// Everything that can be wrong with the input is found here, before the first step.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/world.h"
#include "config/job_config.h"
#include "data/loader.h"
#include "data/tokenizer/tokenizer.h"
#include "device/backend.h"
#include "train/evaluation.h"
#include "train/start_times.h"
#include "train/state.h"

namespace titan::train {

struct Job {
  config::JobConfig config;
  World world;
  std::unique_ptr<device::Backend> backend;
  std::unique_ptr<data::Tokenizer> tokenizer;
  std::unique_ptr<data::Loader> loader;
  std::unique_ptr<Evaluation> evaluation;  // null: validation is off
  TrainingState state;
  StartTimes start;
  uint64_t seed = 0;
  int64_t accumulation_steps = 1;
  int64_t total_steps = 0;
  at::ScalarType parameter_dtype = at::kFloat;
  at::ScalarType compute_dtype = at::kFloat;
};

// The dtype of the computation: mixed_precision_param over float32 parameters, else the parameters'
// own.
at::ScalarType compute_dtype(const config::Training& training);

// Logs what it does. Throws Error or EnvironmentError. Collective: the ranks of `world` meet here,
// after each has checked what it can check alone.
Job make_job(const config::JobConfig& config, const World& world, StartTimes start = {});

}  // namespace titan::train
