// Executes a pipeline schedule's list on this rank: forward and backward passes of its stages on
// micro-batches, and the messages between stages.
#pragma once

#include "train/state.h"
#include "train/step.h"

namespace titan::train {

// Forward and backward of one batch, cut into micro-batches of pipeline->microbatch_size sequences.
// Gradients are left in the stages' parameter groups. Returns this rank's part of the sum of the
// losses times `scale`: zero unless it holds the last stage. `last`: of the step; the reduction of
// a stage's gradients then starts as soon as they are complete. Collective.
at::Tensor pipeline_step(TrainingState& state, const MicroBatch& batch, const at::Tensor& scale,
                         bool last);

// The loss alone, stage after stage.
at::Tensor pipeline_loss(TrainingState& state, const MicroBatch& batch, const at::Tensor& scale);

// The gradient of a tied weight summed over its two copies, after the reductions. Collective over
// the first and the last stage.
void sum_tied_gradients(TrainingState& state);

}  // namespace titan::train
