// The whole configuration of a run: one member per TOML section, member names = TOML keys, defaults
// = TorchTitan's. Values come from config/load.h, which checks them; below train/ pass sections or
// values, never the whole.
#pragma once

#include "config/sections/activation_checkpoint.h"
#include "config/sections/checkpoint.h"
#include "config/sections/comm.h"
#include "config/sections/compile.h"
#include "config/sections/data.h"
#include "config/sections/debug.h"
#include "config/sections/device.h"
#include "config/sections/experimental.h"
#include "config/sections/fault_tolerance.h"
#include "config/sections/job.h"
#include "config/sections/lr_scheduler.h"
#include "config/sections/memory_estimation.h"
#include "config/sections/metrics.h"
#include "config/sections/model.h"
#include "config/sections/npu.h"
#include "config/sections/optimizer.h"
#include "config/sections/parallelism.h"
#include "config/sections/profiling.h"
#include "config/sections/quantize.h"
#include "config/sections/training.h"
#include "config/sections/validation.h"

namespace titan::config {

struct JobConfig {
  Job job;
  Profiling profiling;
  Metrics metrics;
  Model model;
  Optimizer optimizer;
  LrScheduler lr_scheduler;
  Training training;
  Parallelism parallelism;
  Checkpoint checkpoint;
  ActivationCheckpoint activation_checkpoint;
  Compile compile;
  Quantize quantize;
  Comm comm;
  MemoryEstimation memory_estimation;
  FaultTolerance fault_tolerance;
  Experimental experimental;
  Validation validation;
  Debug debug;
  Device device;
  Data data;
  Npu npu;

  static constexpr void describe(auto&& field) {
    field("job", &JobConfig::job, "name and output folder");
    field("profiling", &JobConfig::profiling, "traces and memory snapshots");
    field("metrics", &JobConfig::metrics, "what is logged");
    field("model", &JobConfig::model, "the network");
    field("optimizer", &JobConfig::optimizer, "AdamW and Adam");
    field("lr_scheduler", &JobConfig::lr_scheduler, "learning rate over time");
    field("training", &JobConfig::training, "data, batch, length, precision");
    field("parallelism", &JobConfig::parallelism, "degrees of the mesh");
    field("checkpoint", &JobConfig::checkpoint, "saving, resuming, importing");
    field("activation_checkpoint", &JobConfig::activation_checkpoint, "recomputation");
    field("compile", &JobConfig::compile, "captured steps");
    field("quantize", &JobConfig::quantize, "float8 and MXFP8");
    field("comm", &JobConfig::comm, "collectives and process ranks");
    field("memory_estimation", &JobConfig::memory_estimation, "memory without training");
    field("fault_tolerance", &JobConfig::fault_tolerance, "replicas that may fail");
    field("experimental", &JobConfig::experimental, "Python hooks of TorchTitan");
    field("validation", &JobConfig::validation, "held-out loss");
    field("debug", &JobConfig::debug, "seeds and determinism");
    field("device", &JobConfig::device, "where to run");
    field("data", &JobConfig::data, "reading text");
    field("npu", &JobConfig::npu, "Ascend devices");
  }
};
static_assert(complete<JobConfig>(), "describe() of JobConfig misses a member");

}  // namespace titan::config
