// Ring attention (Liu et al. 2023, arXiv 2310.01889): blocks of keys and values travel round the
// ranks of a group while each rank computes on the block it has. No rank ever holds more than two.
#pragma once

#include <ATen/ATen.h>

#include "comm/group.h"

namespace titan::nn {

// As context_attention(), which calls it. `documents` [B, whole sequence] or undefined. Forward
// sends size - 1 blocks; backward sends them again and size - 1 blocks of gradients in float32
// (float64 for float64).
at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const comm::Group& group, bool head_tail, const at::Tensor& documents);

}  // namespace titan::nn
