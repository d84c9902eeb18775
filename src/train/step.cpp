#include "train/step.h"

#include <ATen/core/grad_mode.h>

#include "ops/cross_entropy.h"

namespace titan::train {

using at::Tensor;

Tensor batch_loss(TrainingState& state, const MicroBatch& batch, const Tensor& scale) {
  const Tensor hidden = state.model->hidden(batch.inputs, *state.runner);
  const Tensor weight = state.runner->parameter(state.model->output_weight());
  return ops::linear_cross_entropy(hidden.flatten(0, 1), weight, batch.labels.flatten(), scale,
                                   state.loss_chunk_tokens);
}

StepResult train_step(TrainingState& state, std::span<const MicroBatch> batches) {
  const Tensor loss_scale = state.loss_scale.scale();
  const Tensor scale = state.inverse_valid_tokens * loss_scale;
  Tensor loss;
  for (const auto& batch : batches) {
    const Tensor part = batch_loss(state, batch, scale);
    part.backward();
    loss = loss.defined() ? loss + part.detach() : part.detach();
  }

  const at::NoGradGuard no_grad;
  const Tensor norm = optim::global_norm(state.optimizer->gradients()) / loss_scale;
  const Tensor clip = (state.max_norm / (norm + 1e-6)).clamp_max(1);
  const Tensor found_inf = norm.isfinite().logical_not().to(at::kFloat);
  state.optimizer->step({.lr = state.lr,
                         .divisor = loss_scale / clip,
                         .found_inf = state.loss_scale.dynamic() ? found_inf : Tensor()});
  const StepResult result{loss / loss_scale, norm};
  state.loss_scale.update(found_inf);
  state.optimizer->clear_gradients();
  return result;
}

}  // namespace titan::train
