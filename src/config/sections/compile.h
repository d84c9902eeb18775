// [compile]: in titan, a captured step; there is no tracing compiler.
#pragma once

#include <string>
#include <vector>

#include "config/field.h"

namespace titan::config {

struct Compile {
  bool enable = false;
  std::vector<std::string> components{"model", "loss"};
  std::string backend = "inductor";

  static constexpr void describe(auto&& field) {
    field("enable", &Compile::enable, "capture the whole step as a graph of the device");
    field("components", &Compile::components, "parts TorchTitan compiles");
    field("backend", &Compile::backend, "compiler TorchTitan uses");
  }
};
static_assert(complete<Compile>(), "describe() of Compile misses a member");

}  // namespace titan::config
