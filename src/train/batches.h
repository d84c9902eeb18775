// From the loader's batches on the host to micro-batches on the device.
#pragma once

#include <optional>
#include <vector>

#include "data/loader.h"
#include "train/step.h"

namespace titan::train {

struct StepBatches {
  std::vector<MicroBatch> micro_batches;
  int64_t valid_tokens = 0;  // labels that count
  int64_t tokens = 0;        // all labels, padding included: what throughput is counted in
};

MicroBatch to_device(const data::SampleBatch& batch, at::Device device);

// The `count` batches of one step. nullopt when a finite set has nothing more; a step that is only
// partly filled at its end is returned short.
std::optional<StepBatches> next_step(data::Loader& loader, int64_t count, at::Device device);

}  // namespace titan::train
