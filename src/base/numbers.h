// Numbers as messages name them.
#pragma once

#include <cstdint>
#include <string>

namespace titan {

// The legal values around `value` that `factor` (above 0) divides: "96 or 112" around 100 for 16;
// never zero.
inline std::string nearest_multiples(int64_t value, int64_t factor) {
  const int64_t below = value / factor * factor;
  const std::string above = std::to_string(below + factor);
  return below == 0 ? above : std::to_string(below) + " or " + above;
}

}  // namespace titan
