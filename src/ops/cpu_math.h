// Arithmetic that CPU kernels share; inlined into each of their versions per vector width.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace titan::ops::cpu {

// exp(x) within 2 ulp: 2^k * p(r) with x = k ln2 + r, |r| <= ln2/2 (Cephes' minimax polynomial).
// Written without calls or branches so that it vectorises.
inline float exp_fast(float x) {
  x = std::min(std::max(x, -87.3f), 88.3f);
  const float k = std::nearbyint(x * 1.44269504088896341f);
  const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float value = p * r * r + r + 1.0f;
  return value * std::bit_cast<float>((static_cast<int32_t>(k) + 127) << 23);
}

}  // namespace titan::ops::cpu
