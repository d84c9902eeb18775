// Root-mean-square normalisation (Zhang & Sennrich 2019, arXiv 1910.07467, eq. 4).
#pragma once

#include <ATen/ATen.h>

namespace titan::ops {

// x [..., dim], weight [dim] -> x / sqrt(mean(x^2) + eps) * weight over the last dim, statistics in
// float32 or wider.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

namespace reference {
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);
}

}  // namespace titan::ops
