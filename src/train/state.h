// What a training run consists of on its device, and what a checkpoint of it holds.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <vector>

#include "checkpoint/state.h"
#include "comm/mesh.h"
#include "comm/placement.h"
#include "models/model.h"
#include "nn/block_runner.h"
#include "nn/token_places.h"
#include "optim/adam.h"
#include "optim/loss_scale.h"
#include "optim/schedule.h"
#include "parallel/pipeline/plan.h"
#include "train/early_step.h"

namespace titan::train {

// A part of the model that this rank runs: all of it, or a pipeline stage.
struct Stage {
  int64_t number = 0;
  models::ModelPart part;
  std::unique_ptr<models::Model> model;
  std::unique_ptr<nn::BlockRunner> runner;
};

// Who runs what in a pipeline; the same on all ranks.
struct Pipeline {
  parallel::pipeline::Plan plan;
  std::vector<models::ModelPart> parts;  // of each stage
  int64_t microbatch_size = 1;           // sequences
  bool splits_backward = false;          // weight gradients are made in actions of their own

  int64_t num_stages() const { return static_cast<int64_t>(parts.size()); }
  // The stage that holds the parameter called `name`; a tied output is the first stage's.
  int64_t stage_of(const models::ModelArgs& args, const std::string& name) const;
};

// What the documents that are packed into a sample mean to a run.
struct DocumentRules {
  bool mask = false;             // a token sees its own document only
  bool reset_positions = false;  // positions start at 0 in every document

  // documents [B, whole sequence] int64.
  nn::TokenPlaces places(const at::Tensor& documents) const;
};

struct TrainingState {
  comm::Mesh mesh;  // of one process by default
  std::vector<Stage> stages;
  std::shared_ptr<const Pipeline> pipeline;  // null without one: stages[0] is the whole model
  std::unique_ptr<optim::Adam> optimizer;
  std::shared_ptr<EarlyStep> early_step;  // null: one update after the backward passes
  optim::LossScale loss_scale;
  optim::Schedule schedule;
  // Which part of each parameter this rank holds, in the optimizer's order.
  std::vector<comm::Placement> placements;
  double peak_lr = 0;
  double max_norm = 1;
  int64_t loss_chunk_tokens = 0;
  DocumentRules documents;

  int64_t step = 0;         // optimizer steps done
  int64_t tokens_seen = 0;  // label tokens of those steps
  // The step after which the schedule began: not 0 when a resume excluded one of the two.
  int64_t schedule_start = 0;

  // Scalars of a step, on the device for the whole run: a step reads them there, the host only
  // writes them before it.
  at::Tensor lr;  // float32, float64 for float64 parameters; where the parameters lie
  at::Tensor inverse_valid_tokens;  // likewise

  const models::ModelArgs& args() const { return stages.front().model->args(); }
  const nn::Axes& axes() const { return stages.front().runner->axes(); }
  // Every parameter of every stage here, in the order of `placements`.
  void visit(const models::ParameterVisitor& visitor) const {
    for (const auto& stage : stages) stage.model->visit(visitor);
  }
};

// This rank's parts of the parameters by name, in the model's order.
std::vector<checkpoint::NamedTensor> model_tensors(const TrainingState& state);
// optimizer.exp_avg.<name>, …: the tensors themselves.
std::vector<checkpoint::NamedTensor> optimizer_tensors(const TrainingState& state);

// step, tokens_seen, schedule_start, loss scale, RNG state of the CPU generator; the trainer adds
// data position and config.
nlohmann::json small_state(const TrainingState& state);
// How far the schedule had come. Throws Error when the state is not titan's.
int64_t stored_schedule_position(const nlohmann::json& json);
void restore_small_state(const nlohmann::json& json, TrainingState& state);

}  // namespace titan::train
