// Warm-up, stable, decay: the learning rate as a factor of its peak (Hu et al. 2024, arXiv
// 2404.06395, section 4).
#pragma once

#include <cstdint>

#include "config/sections/lr_scheduler.h"

namespace titan::optim {

enum class Decay { kLinear, kSqrt, kCosine };

struct Schedule {
  int64_t warmup_steps = 0;
  int64_t stable_steps = 0;
  int64_t decay_steps = 0;
  Decay decay = Decay::kLinear;
  double min_factor = 0;

  // The factor for step 1, 2, …; beyond the last step it stays at the last value.
  double factor(int64_t step) const;
};

// total_steps of the section, or `steps`; warmup is cut to the total; without decay_ratio the decay
// follows the warm-up at once, with it the last ratio of the steps decay.
Schedule make_schedule(const config::LrScheduler& config, int64_t steps);

}  // namespace titan::optim
