// y = x W^T without bias, with a gradient of its own: the grain at which recomputation and, later,
// deferred weight gradients work.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "ops/float8_product.h"
#include "ops/recompute.h"

namespace titan::ops {

// x [..., in], w [out, in], one dtype -> [..., out], in float8 where a recipe is given.
at::Tensor linear(const at::Tensor& x, const at::Tensor& w, Replay replay = Replay::kOutputNeeded,
                  const std::optional<Float8Recipe>& float8 = std::nullopt);

}  // namespace titan::ops
