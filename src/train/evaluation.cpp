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
  EvaluationResult result;
  loader_->rewind();
  at::Tensor total = at::zeros({}, at::TensorOptions(at::kDouble));
  const at::Tensor one = at::ones_like(state.inverse_valid_tokens);
  for (int64_t step = 0; steps_ < 0 || step < steps_; ++step) {
    const auto batch = loader_->next();
    if (!batch) break;
    // One copy to the host per batch: evaluation is outside the training step.
    total += batch_loss(state, to_device(*batch, device_), one).to(at::kCPU, at::kDouble);
    result.tokens += batch->valid_tokens;
    for (const int32_t label : batch->labels) {
      if (label >= 0) result.bytes += bytes_of_token_[static_cast<size_t>(label)];
    }
  }
  if (result.tokens == 0)
    throw Error("[validation] the validation set has no token — check validation.dataset_path");
  result.loss = total.item<double>() / static_cast<double>(result.tokens);
  if (result.bytes > 0) {
    result.bits_per_byte = total.item<double>() / std::log(2.0) / static_cast<double>(result.bytes);
  }
  result.seconds = watch.seconds();
  return result;
}

}  // namespace titan::train
