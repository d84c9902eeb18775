// What one logged step and one validation are described by. Filled by the training loop, printed as
// TorchTitan's metric line, appended to metrics.jsonl and sent to TensorBoard. NaN means "not
// known" in every double.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace titan::observe {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct StepMetrics {
  int64_t step = 0;                     // 1-based
  double loss = kUnknown;               // mean over the valid tokens of the step, nats
  double max_loss = kUnknown;           // largest mean of one data-parallel rank
  double grad_norm = kUnknown;          // before clipping
  double lr = kUnknown;                 // used in this step
  double tokens_per_second = kUnknown;  // per device, since the previous logged step
  double tflops = kUnknown;             // per device, by the formula of flops.h
  double mfu = kUnknown;                // percent of the device's peak
  double memory_gib =
      kUnknown;  // peak: reserved by the allocator on a device, resident set on a CPU
  double memory_percent = kUnknown;  // of what the device has, or of what this process may use
  double data_wait_s = kUnknown;     // seconds per step spent waiting for the loader
  double end_to_end_s = kUnknown;    // seconds per step, everything included
  double time_s = kUnknown;          // since the first step of the run began; goes on over a resume
  int64_t tokens_seen = 0;           // by the whole run
  std::optional<double> val_loss =
      std::nullopt;  // when this step was validated before it was logged
  std::optional<double> val_bits_per_byte = std::nullopt;
};

struct ValidationMetrics {
  int64_t step = 0;
  double loss = kUnknown;  // nats per token
  std::optional<double> bits_per_byte = std::nullopt;
  double tokens_per_second = kUnknown;
  double memory_gib = kUnknown;
  double memory_percent = kUnknown;
};

}  // namespace titan::observe
