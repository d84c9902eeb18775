#include "train/step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include "nn/loss.h"
#include "nn/sequence.h"
#include "train/pipeline_step.h"

namespace titan::train {

using at::Tensor;

Tensor stage_forward(Stage& stage, const Tensor& x, const nn::TokenPlaces& places) {
  stage.runner->begin_pass();
  return stage.model->hidden(x, *stage.runner, places);
}

Tensor output_loss(const TrainingState& state, Stage& stage, const Tensor& hidden,
                   const Tensor& labels, const Tensor& scale) {
  const auto& tp = stage.runner->axes().tp;
  const Tensor all = nn::gather_sequence(hidden, tp);
  const Tensor weight = stage.runner->parameter(stage.model->output_weight());
  return nn::linear_cross_entropy(all.flatten(0, 1), weight, labels.flatten(), scale,
                                  state.loss_chunk_tokens, state.args().vocab_size, tp,
                                  stage.runner->float8("output"));
}

Tensor batch_loss(TrainingState& state, const MicroBatch& batch, const Tensor& scale) {
  if (state.pipeline) return pipeline_loss(state, batch, scale);
  Stage& whole = state.stages.front();
  const Tensor hidden = stage_forward(whole, batch.inputs, batch.places);
  return output_loss(state, whole, hidden, batch.labels, scale);
}

namespace {

// The gradients that this rank answers for.
std::vector<Tensor> owned_gradients(TrainingState& state) {
  std::vector<Tensor> owned;
  const auto gradients = state.optimizer->gradients();
  for (size_t i = 0; i < gradients.size(); ++i) {
    owned.push_back(state.placements[i].owned.of(gradients[i]));
  }
  return owned;
}

// Forward and backward of one batch; returns its loss without the graph.
Tensor accumulate(TrainingState& state, const MicroBatch& batch, const Tensor& scale, bool last) {
  if (state.pipeline) return pipeline_step(state, batch, scale, last);
  auto& progress = state.mesh.context->progress;
  progress.phase = "forward";
  const Tensor loss = [&] {
    RECORD_USER_SCOPE("forward");
    return batch_loss(state, batch, scale);
  }();
  progress.phase = "backward";
  RECORD_USER_SCOPE("backward");
  state.stages.front().runner->set_last_pass(last);
  loss.backward();
  return loss.detach();
}

// Norm of the gradients and loss over all ranks, in one message.
StepResult over_all_ranks(TrainingState& state, const Tensor& loss) {
  const comm::Mesh& mesh = state.mesh;
  if (mesh.shape.world() == 1 && !state.early_step) {
    return {loss, optim::global_norm(state.optimizer->gradients()).to(loss.device())};
  }
  // The gradients, hence the squares, may lie in host memory.
  Tensor squares = state.early_step ? state.early_step->take_squares()
                                    : optim::sum_of_squares(owned_gradients(state),
                                                            state.inverse_valid_tokens.options());
  squares = squares.to(loss.device());
  if (mesh.shape.world() == 1) return {loss, squares.sqrt()};
  // Replicas know the same gradients; tensor-parallel ranks the same loss.
  squares = squares / static_cast<double>(mesh.shape.dp_replicate);
  const Tensor mine = mesh.at.tp == 0 ? loss : at::zeros_like(loss);
  Tensor sums = at::stack({squares, mine.to(squares.scalar_type())});
  mesh.all.start_all_reduce(sums).wait();
  return {sums[1], sums[0].sqrt()};
}

}  // namespace

StepResult train_step(TrainingState& state, std::span<const MicroBatch> batches,
                      const GradientObserver& with_gradients) {
  comm::Progress& progress = state.mesh.context->progress;
  progress.step = state.step + 1;
  const Tensor loss_scale = state.loss_scale.scale();
  const Tensor scale = state.inverse_valid_tokens * loss_scale;
  Tensor loss;
  for (size_t i = 0; i < batches.size(); ++i) {
    const Tensor part = accumulate(state, batches[i], scale, i + 1 == batches.size());
    loss = loss.defined() ? loss + part : part;
  }
  progress.phase = "gradient reduction";
  {
    RECORD_USER_SCOPE("gradient reduction");
    for (auto& stage : state.stages) stage.runner->finish_gradients();
    sum_tied_gradients(state);
  }
  if (with_gradients && !state.early_step) with_gradients(state.optimizer->gradients());

  const at::NoGradGuard no_grad;
  progress.phase = "optimizer";
  RECORD_USER_SCOPE("optimizer");
  auto [total, norm] = over_all_ranks(state, loss);
  norm = norm / loss_scale;
  if (state.early_step) return {total, norm};
  const Tensor clip = (state.max_norm / (norm + 1e-6)).clamp_max(1);
  const Tensor found_inf = norm.isfinite().logical_not().to(at::kFloat);
  state.optimizer->step({.lr = state.lr,
                         .divisor = (loss_scale / clip).to(state.optimizer->device()),
                         .found_inf = state.loss_scale.dynamic()
                                          ? found_inf.to(state.optimizer->device())
                                          : Tensor()});
  const StepResult result{total / loss_scale, norm};
  state.loss_scale.update(found_inf);
  state.optimizer->clear_gradients();
  return result;
}

}  // namespace titan::train
