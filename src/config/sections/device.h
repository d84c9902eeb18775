// [device] is titan's own: where the run takes place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/field.h"

namespace titan::config {

struct Device {
  std::string name = "auto";
  std::optional<int64_t> threads;

  static constexpr void describe(auto&& field) {
    field("name", &Device::name, "device; auto: the first of npu, cuda, cpu that works",
          one_of("auto|cpu|cuda|npu"));
    field("threads", &Device::threads,
          "threads of CPU computation; absent: the cores this process may use", at_least(1));
  }
};
static_assert(complete<Device>(), "describe() of Device misses a member");

}  // namespace titan::config
