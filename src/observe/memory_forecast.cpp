#include "observe/memory_forecast.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace titan::observe {

int64_t kept_values_per_token(const MemoryPlan& plan) {
  const int64_t queries = plan.num_heads * plan.head_dim;
  const int64_t keys_and_values = 2 * plan.num_kv_heads * plan.head_dim;
  // Attention half: block input, its norm, rotated queries, keys and values, attention output.
  const int64_t attention = 2 * plan.dim + 2 * queries + keys_and_values;
  // Feed-forward half: its input, its norm, gate, up projection and their product.
  const int64_t feed_forward = 2 * plan.dim + 3 * plan.hidden_dim;
  return attention + feed_forward;
}

MemoryForecast forecast_memory(const MemoryPlan& plan) {
  MemoryForecast forecast;
  const int64_t copy_bytes = plan.compute_bytes == plan.parameter_bytes ? 0 : plan.compute_bytes;
  forecast.parameters = plan.parameters * (plan.parameter_bytes + copy_bytes);
  forecast.gradients = plan.parameters * plan.parameter_bytes;
  forecast.optimizer = plan.parameters * plan.optimizer_values * plan.parameter_bytes;
  if (plan.offloaded) {
    forecast.parameters = plan.parameters * plan.compute_bytes;
    forecast.gradients = forecast.optimizer = 0;
  }

  // A recomputed block keeps its input only; while it is computed again, one block's values exist
  // in full.
  const int64_t recomputed = std::clamp<int64_t>(plan.recomputed_layers, 0, plan.num_layers);
  const int64_t whole_blocks = plan.num_layers - recomputed + (recomputed > 0 ? 1 : 0);
  const int64_t values = whole_blocks * kept_values_per_token(plan) + recomputed * plan.dim;
  // Embedding output, final norm and its output.
  forecast.activations = plan.tokens * (values + 3 * plan.dim) * plan.compute_bytes;

  const int64_t chunk =
      plan.loss_chunk_tokens > 0 ? std::min(plan.loss_chunk_tokens, plan.tokens) : plan.tokens;
  forecast.loss =
      chunk * plan.vocab_size * (4 + 4 + (plan.compute_bytes < 4 ? plan.compute_bytes : 0));
  return forecast;
}

std::string describe(const MemoryForecast& forecast, int64_t capacity) {
  std::string text = text::bytes(forecast.total());
  if (capacity > 0) {
    const double share =
        100.0 * static_cast<double>(forecast.total()) / static_cast<double>(capacity);
    text += fmt::format(" of {} ({:.0f}%)", text::bytes(capacity), share);
  }
  return text + fmt::format(": parameters {}, gradients {}, optimizer {}, activations {}, loss {}",
                            text::bytes(forecast.parameters), text::bytes(forecast.gradients),
                            text::bytes(forecast.optimizer), text::bytes(forecast.activations),
                            text::bytes(forecast.loss));
}

std::optional<std::string> memory_warning(const MemoryForecast& forecast, int64_t capacity) {
  if (capacity <= 0 || forecast.total() <= capacity) return std::nullopt;
  const int64_t fixed = forecast.parameters + forecast.gradients + forecast.optimizer;
  const std::string need = fmt::format("memory: about {} are needed, {} are there",
                                       text::bytes(forecast.total()), text::bytes(capacity));
  if (fixed > capacity) {
    return need +
           fmt::format(
               "; parameters, gradients and optimizer states alone take {} — use a smaller model, "
               "training.dtype = \"bfloat16\" or more devices",
               text::bytes(fixed));
  }
  return need +
         " — lower training.local_batch_size or training.seq_len, or set "
         "activation_checkpoint.mode = \"full\"";
}

}  // namespace titan::observe
