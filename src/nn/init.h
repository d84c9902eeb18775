// Initial weights that do not depend on the layout: an element's value is a function of (seed,
// parameter name, global index) and nothing else, so any sharding of the same model starts equal.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "comm/placement.h"

namespace titan::nn {

struct Init {
  enum class Kind { kOnes, kNormal };
  Kind kind = Kind::kNormal;
  double std = 0.02;
  double bound =
      0;  // > 0: normal truncated to [-bound, bound] (absolute, not in standard deviations)
};

// Fills `part`, the part `box` of the parameter called `name` of global shape `shape`. Bits come
// from Philox4x32-10 (Salmon et al. 2011) keyed by seed and name with the global row-major index as
// the counter, normals from the inverse of the distribution function (Wichura 1988, AS 241,
// PPND16).
void initialize(at::Tensor& part, const Init& init, uint64_t seed, std::string_view name,
                const std::vector<int64_t>& shape, const comm::Box& box);
// A whole parameter.
void initialize(at::Tensor& parameter, const Init& init, uint64_t seed, std::string_view name);

}  // namespace titan::nn
