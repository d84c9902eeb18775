#include "train/batches.h"

namespace titan::train {

MicroBatch to_device(const data::SampleBatch& batch, at::Device device) {
  // Ids travel as int32; the device widens them.
  const auto move = [&](const std::vector<int32_t>& ids) {
    const auto on_host = at::from_blob(const_cast<int32_t*>(ids.data()),
                                       {batch.num_samples, batch.seq_len}, at::kInt);
    return on_host.to(device).to(at::kLong);
  };
  return {move(batch.inputs), move(batch.labels)};
}

std::optional<StepBatches> next_step(data::Loader& loader, int64_t count, at::Device device) {
  StepBatches step;
  for (int64_t i = 0; i < count; ++i) {
    const auto batch = loader.next();
    if (!batch) break;
    step.micro_batches.push_back(to_device(*batch, device));
    step.valid_tokens += batch->valid_tokens;
    step.tokens += batch->num_samples * batch->seq_len;
  }
  if (step.valid_tokens == 0) return std::nullopt;
  return step;
}

}  // namespace titan::train
