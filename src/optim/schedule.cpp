#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace titan::optim {
namespace {

Decay parse_decay(const std::string& name) {
  if (name == "linear") return Decay::kLinear;
  if (name == "sqrt") return Decay::kSqrt;
  if (name == "cosine") return Decay::kCosine;
  throw Error("[lr_scheduler] decay_type '{}' is not one of linear, sqrt, cosine", name);
}

}  // namespace

Schedule make_schedule(const config::LrScheduler& config, int64_t steps) {
  const int64_t total = config.total_steps.value_or(steps);
  Schedule schedule;
  schedule.warmup_steps = std::min(config.warmup_steps, total);
  schedule.decay_steps = total - schedule.warmup_steps;
  if (config.decay_ratio) {
    // nearbyint rounds halves to even, as the peers' configs expect.
    const auto decay =
        static_cast<int64_t>(std::nearbyint(static_cast<double>(total) * *config.decay_ratio));
    schedule.decay_steps = std::min(decay, schedule.decay_steps);
  }
  schedule.stable_steps = total + 1 - schedule.warmup_steps - schedule.decay_steps;
  schedule.decay = parse_decay(config.decay_type);
  schedule.min_factor = config.min_lr_factor;
  return schedule;
}

double Schedule::factor(int64_t step) const {
  const int64_t total = warmup_steps + stable_steps + decay_steps - 1;
  const int64_t c = std::min(step, std::max<int64_t>(total, 1)) - 1;
  if (c < warmup_steps) return static_cast<double>(c + 1) / static_cast<double>(warmup_steps);
  if (c < warmup_steps + stable_steps) return 1;
  const double progress =
      static_cast<double>(c + 1 - warmup_steps - stable_steps) / static_cast<double>(decay_steps);
  double shape = 1 - progress;
  if (decay == Decay::kSqrt) shape = 1 - std::sqrt(progress);
  if (decay == Decay::kCosine) shape = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return min_factor + (1 - min_factor) * shape;
}

}  // namespace titan::optim
