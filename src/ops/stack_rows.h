// Matrices on top of each other.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace titan::ops {

// parts [r, n] each, of one dtype -> [sum of r, n], not differentiable. Where they lie behind each
// other in memory nothing is copied: the result is that memory.
at::Tensor stack_rows(const std::vector<at::Tensor>& parts);

// The dtype in which the graph takes the gradient of `x`: its own, unless who handed it out wants
// another. Call outside of an autograd function.
at::ScalarType gradient_dtype(const at::Tensor& x);

}  // namespace titan::ops
