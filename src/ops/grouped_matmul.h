// The linear layers of all experts at once: rows that are sorted by expert, each group times the
// weight of its expert. Both gradients are grouped products too; rows and weights are saved.
#pragma once

#include <ATen/ATen.h>

namespace titan::ops {

// x [rows, in], w [experts, out, in] of one dtype -> [rows, out], y = x w[e]^T. `ends` [experts]
// int64 on their device: where the rows of each expert end, that is, the cumulative sum of
// count_tokens(). REQUIRES that they never fall and that the last one is the number of rows
// (checked on the CPU). An expert may have no rows, and its weight gradient is zero.
//
// Float32, bfloat16 and float16 on NPUs. On NVIDIA GPUs the host waits for `ends`.
at::Tensor grouped_matmul(const at::Tensor& x, const at::Tensor& w, const at::Tensor& ends);

namespace reference {
at::Tensor grouped_matmul(const at::Tensor& x, const at::Tensor& w, const at::Tensor& ends);
}

}  // namespace titan::ops
