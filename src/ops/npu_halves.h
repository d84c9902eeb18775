// The halves of a block (ops/block_halves.h) on an NPU. The launches are those of the separate ops
// without the copy that puts gate and up behind each other and with the sums of gradients inside
// the products; what the host is spared is some twenty nodes of the graph a block and the layers of
// the dispatcher that keep autograd's books.
#pragma once

#include <ATen/ATen.h>

#include "ops/block_halves.h"

namespace titan::ops::npu {

// See ops::attention_half and ops::feed_forward_half. REQUIRES: no product in float8.
at::Tensor attention_half(const at::Tensor& x, const AttentionHalf& p);
at::Tensor feed_forward_half(const at::Tensor& x, const FeedForwardHalf& p);

}  // namespace titan::ops::npu
