#include "train/batches.h"

#include <algorithm>

namespace titan::train {
namespace {

// What the readers agree on, summed over the world: every reader counts once.
struct Counts {
  int64_t valid_tokens = 0, tokens = 0, micro_batches = 0;  // the last one: the largest
};

Counts over_readers(const Counts& mine, const comm::Mesh& mesh) {
  if (mesh.shape.world() == 1) return mine;
  const int64_t once = mesh.is_data_leader() ? 1 : 0;
  at::Tensor sums = at::tensor({once * mine.valid_tokens, once * mine.tokens}, at::kLong);
  at::Tensor largest = at::tensor({mine.micro_batches}, at::kLong);
  mesh.world.start_all_reduce(sums).wait();
  mesh.world.start_all_reduce(largest, comm::Reduce::kMax).wait();
  return {sums[0].item<int64_t>(), sums[1].item<int64_t>(), largest[0].item<int64_t>()};
}

// Rows of readers that have come to the end of their text hold none; how many there are depends on
// the layout.
int64_t rows_with_text(const data::SampleBatch& batch) {
  int64_t rows = 0;
  for (int64_t row = 0; row < batch.num_samples; ++row) {
    const auto begin = batch.labels.begin() + row * batch.seq_len;
    rows += std::any_of(begin, begin + batch.seq_len, [](int32_t label) { return label >= 0; });
  }
  return rows;
}

}  // namespace

MicroBatch part_of(const MicroBatch& whole, const nn::ContextParallel& context) {
  const auto size = context.group.size(), rank = context.group.rank();
  if (size == 1) return whole;
  const auto part = [&](const at::Tensor& x) {
    return nn::shard_sequence(x, 1, size, rank, context.head_tail).contiguous();
  };
  const auto& positions = whole.places.positions;
  return {part(whole.inputs),
          part(whole.labels),
          {.positions = positions.defined()
                            ? part(positions)
                            : nn::context_positions(whole.inputs.size(1), size, rank,
                                                    context.head_tail, whole.inputs.device()),
           .documents = whole.places.documents}};
}

MicroBatch to_device(const data::SampleBatch& batch, at::Device device,
                     const nn::ContextParallel& context, const DocumentRules& rules) {
  // Ids travel as int32; the device widens them.
  const auto move = [&](const std::vector<int32_t>& ids) {
    const auto given = at::from_blob(const_cast<int32_t*>(ids.data()),
                                     {batch.num_samples, batch.seq_len}, at::kInt);
    if (device.is_cpu()) return given.to(at::kLong);
    // From pinned memory the copy does not wait for the device, and libtorch keeps the memory until
    // it is done.
    const auto pinned = at::empty(given.sizes(), given.options().pinned_memory(true));
    pinned.copy_(given);
    return pinned.to(device, at::kInt, /*non_blocking=*/true).to(at::kLong);
  };
  nn::TokenPlaces places;
  if (rules.mask || rules.reset_positions) places = rules.places(move(batch.documents));
  return part_of({move(batch.inputs), move(batch.labels), places}, context);
}

std::optional<StepBatches> next_step(data::Loader& loader, int64_t count, at::Device device,
                                     const TrainingState& state) {
  const auto& context = state.axes().context;
  StepBatches step;
  Counts mine;
  for (int64_t i = 0; i < count; ++i) {
    const auto batch = loader.next();
    if (!batch) break;
    step.micro_batches.push_back(to_device(*batch, device, context, state.documents));
    mine.valid_tokens += batch->valid_tokens;
    mine.tokens += rows_with_text(*batch) * batch->seq_len;
  }
  mine.micro_batches = static_cast<int64_t>(step.micro_batches.size());
  const Counts all = over_readers(mine, state.mesh);
  if (all.valid_tokens == 0) return std::nullopt;
  while (static_cast<int64_t>(step.micro_batches.size()) < all.micro_batches) {
    step.micro_batches.push_back(to_device(loader.empty_batch(), device, context, state.documents));
  }
  step.valid_tokens = all.valid_tokens;
  step.tokens = all.tokens;
  return step;
}

}  // namespace titan::train
