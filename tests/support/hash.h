// Values that C++ tests and the scripts that write goldens compute alike (tools/make_goldens.py).
#pragma once

#include <cstdint>

namespace titan {

// A 32-bit hash of two small integers.
inline uint32_t mix(uint32_t index, uint32_t salt) {
  uint32_t x = index * 2654435761U + salt * 2246822519U + 374761393U;
  x ^= x >> 15;
  x *= 2246822519U;
  x ^= x >> 13;
  x *= 3266489917U;
  return x ^ (x >> 16);
}

// In [-0.5, 0.5).
inline double centred(uint32_t index, uint32_t salt) { return mix(index, salt) * 0x1p-32 - 0.5; }

}  // namespace titan
