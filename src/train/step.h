// One optimizer step, from batches on the device to updated parameters. Nothing in it waits for the
// device.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <span>

#include "train/state.h"

namespace titan::train {

// What this rank sees of one micro-batch.
struct MicroBatch {
  at::Tensor inputs, labels;  // [B, T] int64 on the device; ignored labels are ops::kIgnoredLabel
  nn::TokenPlaces places = {};
};

// 0-dim tensors on the device, equal on all ranks.
struct StepResult {
  at::Tensor loss;       // sum over the step's valid tokens divided by their number
  at::Tensor grad_norm;  // before clipping
};

using GradientObserver = std::function<void(std::span<const at::Tensor>)>;

// REQUIRES: state.lr and state.inverse_valid_tokens are set for this step; every rank has the same
// number of micro-batches. Collective.
// `with_gradients`: called with the reduced gradients of this rank's parameters before they are
// used; never with state.early_step, which has used them.
StepResult train_step(TrainingState& state, std::span<const MicroBatch> batches,
                      const GradientObserver& with_gradients = nullptr);

// The loss of this rank's part of one batch times `scale`, a 0-dim tensor on the device;
// differentiable. Tensor-parallel ranks get the same.
at::Tensor batch_loss(TrainingState& state, const MicroBatch& batch, const at::Tensor& scale);

// The pieces of it: a stage's forward pass, and the loss of what the last stage gives.
at::Tensor stage_forward(Stage& stage, const at::Tensor& x, const nn::TokenPlaces& places);
at::Tensor output_loss(const TrainingState& state, Stage& stage, const at::Tensor& hidden,
                       const at::Tensor& labels, const at::Tensor& scale);

}  // namespace titan::train
