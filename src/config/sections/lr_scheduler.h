// [lr_scheduler]: warm-up, a stable part, then decay to min_lr_factor of the peak.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/field.h"

namespace titan::config {

struct LrScheduler {
  int64_t warmup_steps = 200;
  std::optional<int64_t> total_steps;
  std::optional<double> decay_ratio;
  std::string decay_type = "linear";
  double min_lr_factor = 0.0;

  static constexpr void describe(auto&& field) {
    field("warmup_steps", &LrScheduler::warmup_steps,
          "steps of the linear warm-up; cut to the length of the schedule", at_least(0));
    field("total_steps", &LrScheduler::total_steps,
          "length of the schedule; absent: training.steps", at_least(1));
    field("decay_ratio", &LrScheduler::decay_ratio,
          "share of the schedule that decays, at its end; absent: all after the warm-up",
          between(0, 1));
    field("decay_type", &LrScheduler::decay_type, "shape of the decay",
          one_of("linear|sqrt|cosine"));
    field("min_lr_factor", &LrScheduler::min_lr_factor,
          "floor of the learning rate as a share of optimizer.lr", between(0, 1));
  }
};
static_assert(complete<LrScheduler>(), "describe() of LrScheduler misses a member");

}  // namespace titan::config
