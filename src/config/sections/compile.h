// [compile]: in titan, a captured step; there is no tracing compiler.
#pragma once

#include <string>
#include <vector>

#include "config/field.h"

namespace titan::config {

struct Compile {
  bool enable = false;
  bool require = false;
  std::vector<std::string> components{"model", "loss"};
  std::string backend = "inductor";

  static constexpr void describe(auto&& field) {
    field("enable", &Compile::enable, "capture the whole step as a graph of the device");
    field("require", &Compile::require,
          "stop when the step cannot be captured, instead of running it as usual");
    field("components", &Compile::components, "parts TorchTitan compiles");
    field("backend", &Compile::backend, "compiler TorchTitan uses");
  }
};
static_assert(complete<Compile>(), "describe() of Compile misses a member");

}  // namespace titan::config
