// y = x W^T without bias, with a gradient of its own: the grain at which recomputation and, later,
// deferred weight gradients work.
#pragma once

#include <ATen/ATen.h>

#include "ops/recompute.h"

namespace titan::ops {

// x [..., in], w [out, in], one dtype -> [..., out].
at::Tensor linear(const at::Tensor& x, const at::Tensor& w, Replay replay = Replay::kOutputNeeded);

}  // namespace titan::ops
