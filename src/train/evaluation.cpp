#include "train/evaluation.h"

#include <ATen/core/grad_mode.h>

#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "train/batches.h"

namespace titan::train {

Evaluation::Evaluation(std::unique_ptr<data::Loader> loader, const data::Tokenizer& tokenizer,
                       int64_t steps, at::Device device)
    : loader_(std::move(loader)), steps_(steps), device_(device) {
  bytes_of_token_.resize(static_cast<size_t>(tokenizer.vocab_size()));
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    // BOS and EOS stand for no text.
    const bool marker = id == tokenizer.bos_id() || id == tokenizer.eos_id();
    bytes_of_token_[static_cast<size_t>(id)] =
        marker ? 0 : static_cast<int32_t>(tokenizer.token_bytes(id).size());
  }
}

EvaluationResult Evaluation::run(TrainingState& state) {
  const at::NoGradGuard no_grad;
  const Stopwatch watch;
  const comm::Mesh& mesh = state.mesh;
  loader_->rewind();
  // Loss, tokens and bytes of this rank; float64 counts exactly up to 2^53.
  at::Tensor sums = at::zeros({3}, at::TensorOptions(at::kDouble));
  const at::Tensor one = at::ones_like(state.inverse_valid_tokens);
  for (int64_t step = 0; steps_ < 0 || step < steps_; ++step) {
    auto batch = loader_->next();
    at::Tensor more = at::tensor({batch ? 1 : 0}, at::kLong);
    mesh.world.start_all_reduce(more, comm::Reduce::kMax).wait();
    if (more.item<int64_t>() == 0) break;
    if (!batch) batch = loader_->empty_batch();
    // One copy to the host per batch: evaluation is outside the training step.
    const at::Tensor loss =
        batch_loss(state, to_device(*batch, device_, state.axes().context, state.documents), one);
    if (mesh.at.tp == 0) sums[0] += loss.to(at::kCPU).to(at::kDouble);
    if (!mesh.is_data_leader()) continue;
    sums[1] += batch->valid_tokens;
    int64_t bytes = 0;
    for (const int32_t label : batch->labels) {
      if (label >= 0) bytes += bytes_of_token_[static_cast<size_t>(label)];
    }
    sums[2] += bytes;
  }
  mesh.world.start_all_reduce(sums).wait();
  EvaluationResult result;
  result.tokens = static_cast<int64_t>(sums[1].item<double>());
  result.bytes = static_cast<int64_t>(sums[2].item<double>());
  if (result.tokens == 0) {
    throw Error("[validation] the validation set has no token — check validation.dataset_path");
  }
  const double total = sums[0].item<double>();
  result.loss = total / static_cast<double>(result.tokens);
  if (result.bytes > 0) {
    result.bits_per_byte = total / std::log(2.0) / static_cast<double>(result.bytes);
  }
  result.seconds = watch.seconds();
  return result;
}

}  // namespace titan::train
