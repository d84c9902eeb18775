// [memory_estimation]: estimate memory without training.
#pragma once

#include "config/field.h"

namespace titan::config {

struct MemoryEstimation {
  bool enable = false;
  bool disable_fake_mode = false;

  static constexpr void describe(auto&& field) {
    field("enable", &MemoryEstimation::enable, "estimate the memory of the run");
    field("disable_fake_mode", &MemoryEstimation::disable_fake_mode, "estimate with real tensors");
  }
};
static_assert(complete<MemoryEstimation>(), "describe() of MemoryEstimation misses a member");

}  // namespace titan::config
