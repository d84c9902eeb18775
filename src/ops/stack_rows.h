// Matrices on top of each other.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace titan::ops {

// parts [r, n] each, contiguous, of one dtype -> [sum of r, n], differentiable. Where they lie
// behind each other in memory nothing is copied: the result is that memory.
at::Tensor stack_rows(const std::vector<at::Tensor>& parts);

}  // namespace titan::ops
