// Puts model, runner and optimizer of one rank together from the model's sizes, the mesh and the
// options: the place where models' tables, FSDP groups and initial values meet.
#pragma once

#include "comm/mesh.h"
#include "config/sections/activation_checkpoint.h"
#include "config/sections/optimizer.h"
#include "models/model.h"
#include "nn/context_attention.h"
#include "optim/schedule.h"
#include "parallel/recompute_plan.h"
#include "train/float8.h"
#include "train/state.h"

namespace titan::train {

enum class Reshard { kDefault, kAlways, kNever };  // fsdp_reshard_after_forward

struct AssemblyOptions {
  at::ScalarType parameter_dtype = at::kFloat;
  at::ScalarType compute_dtype = at::kFloat;
  at::Device device = at::kCPU;
  uint64_t seed = 0;
  config::Optimizer optimizer;
  parallel::RecomputePlan plan;
  nn::ContextMethod context_method = nn::ContextMethod::kAllGather;
  bool head_tail = true;
  bool overlap_tp = false;  // nn::Axes
  Reshard reshard = Reshard::kDefault;
  // Gradients are summed whole over the micro-batches of a step and reduced once (ZeRO-1).
  bool whole_gradients = false;
  bool offload = false;     // parameters, gradients, optimizer states in host memory
  bool captured = false;    // the step reads its scalars on the device only
  bool early_step = false;  // EarlyStep; without a pipeline and float16
  Float8Layers float8;      // empty: none
  std::shared_ptr<const Pipeline> pipeline;  // with mesh.shape.pp > 1
};

// Model, runner, optimizer and the scalars of a step; everything else of the state is left to the
// caller. Initial values do not depend on the mesh.
TrainingState assemble(const models::ModelArgs& args, const comm::Mesh& mesh,
                       const AssemblyOptions& options);

// What rank `rank` of a mesh holds of the parameter called `name`, without a process there; an
// empty part where its pipeline stages hold none.
comm::Placement placement_at(const models::ModelArgs& args, const comm::MeshShape& shape,
                             const Pipeline* pipeline, int64_t rank, const std::string& name);

}  // namespace titan::train
