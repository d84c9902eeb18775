// From the loader's batches on the host to micro-batches on the device.
#pragma once

#include <optional>
#include <vector>

#include "comm/mesh.h"
#include "data/loader.h"
#include "nn/context_attention.h"
#include "train/step.h"

namespace titan::train {

struct StepBatches {
  std::vector<MicroBatch> micro_batches;
  // Over all ranks:
  int64_t valid_tokens = 0;  // labels that count
  int64_t tokens = 0;        // of rows with text, padding included: what throughput is counted in
};

// This rank's part of a batch.
MicroBatch to_device(const data::SampleBatch& batch, at::Device device,
                     const nn::ContextParallel& context, const DocumentRules& rules);
// This rank's part of whole sequences. Document ids stay whole: a rank's tokens meet keys of
// others.
MicroBatch part_of(const MicroBatch& whole, const nn::ContextParallel& context);

// The `count` batches of one step of this reader, for the run of `state`. nullopt on every rank
// when no reader has more of a finite set; a step that is only partly filled at its end is returned
// short, with as many micro-batches on every rank. Collective.
std::optional<StepBatches> next_step(data::Loader& loader, int64_t count, at::Device device,
                                     const TrainingState& state);

}  // namespace titan::train
