// How much memory a run will need on one device, told before the first step from sizes alone.
// Parameters, gradients and optimizer states are exact; activations are an estimate of what a
// Llama-like block keeps for its backward pass.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace titan::observe {

struct MemoryPlan {
  int64_t parameters = 0;
  int64_t parameter_bytes =
      4;  // per parameter, gradient and optimizer value: the size of training.dtype
  int64_t compute_bytes = 4;     // per activation value: the size of the compute dtype
  int64_t optimizer_values = 2;  // per parameter: Adam and AdamW keep two
  // Parameters, gradients and optimizer states are elsewhere; the device holds parameters in the
  // compute dtype.
  bool offloaded = false;

  int64_t tokens = 0;  // of one micro-batch: local_batch_size * seq_len
  int64_t num_layers = 0;
  int64_t recomputed_layers = 0;  // whole blocks under activation checkpointing
  int64_t dim = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t hidden_dim = 0;
  int64_t vocab_size = 0;
  int64_t loss_chunk_tokens = 0;  // 0: all tokens at once
};

// Bytes.
struct MemoryForecast {
  int64_t parameters = 0;  // with the copy in the compute dtype where it differs
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t activations = 0;
  int64_t loss = 0;  // logits, their float32 form and their gradient
  int64_t total() const { return parameters + gradients + optimizer + activations + loss; }
};

MemoryForecast forecast_memory(const MemoryPlan& plan);

// Values one block keeps per token for its backward pass.
int64_t kept_values_per_token(const MemoryPlan& plan);

// "1.9 GiB of 23.4 GiB (8%): parameters 23.5 MiB, gradients 23.5 MiB, optimizer 47.0 MiB,
// activations 1.7 GiB, loss 66.0 MiB". capacity 0: not known.
std::string describe(const MemoryForecast& forecast, int64_t capacity);

// What to change when the forecast does not fit; nullopt when it does.
std::optional<std::string> memory_warning(const MemoryForecast& forecast, int64_t capacity);

}  // namespace titan::observe
