// Matrix product as the other ops use it.
#pragma once

#include <ATen/ATen.h>

namespace titan::ops {

// a [m, k], b [k, n] of one dtype -> [m, n] of that dtype. bfloat16 and float16 on a CPU without
// the instructions for them are multiplied in float32: libtorch's own kernels for that case are
// many times slower and sum in the narrow type.
at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b);

}  // namespace titan::ops
