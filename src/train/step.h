// One optimizer step, from batches on the device to updated parameters. Nothing in it waits for the
// device.
#pragma once

#include <ATen/ATen.h>

#include <span>

#include "train/state.h"

namespace titan::train {

struct MicroBatch {
  at::Tensor inputs, labels;  // [B, T] int64 on the device; ignored labels are ops::kIgnoredLabel
};

// 0-dim tensors on the device.
struct StepResult {
  at::Tensor loss;       // sum over the step's valid tokens divided by their number
  at::Tensor grad_norm;  // before clipping
};

// REQUIRES: state.lr and state.inverse_valid_tokens are set for this step.
StepResult train_step(TrainingState& state, std::span<const MicroBatch> batches);

// The loss of one batch times `scale`, a 0-dim tensor on the device; differentiable.
at::Tensor batch_loss(TrainingState& state, const MicroBatch& batch, const at::Tensor& scale);

}  // namespace titan::train
