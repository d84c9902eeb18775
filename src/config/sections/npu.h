// [npu] is titan's own: settings of Ascend devices.
#pragma once

#include <cstdint>
#include <optional>

#include "config/field.h"

namespace titan::config {

struct Npu {
  std::optional<double> memory_fraction;
  std::optional<int64_t> zero_stage;

  static constexpr void describe(auto&& field) {
    field("memory_fraction", &Npu::memory_fraction,
          "share of the device memory the allocator may take",
          Check{.least = 0, .most = 1, .open = true});
    field("zero_stage", &Npu::zero_stage,
          "ZeRO stage: 0 replicate, 1 shard optimizer states, 2 also gradients, 3 also parameters",
          between(0, 3));
  }
};
static_assert(complete<Npu>(), "describe() of Npu misses a member");

}  // namespace titan::config
