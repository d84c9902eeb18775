// Sequence parallelism (Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2): between the
// matrices, where every token is on its own, the tensor-parallel ranks split the sequence.
// x [B, T, …]; the identity on one rank.
#pragma once

#include <ATen/ATen.h>

#include "comm/group.h"
#include "ops/recompute.h"

namespace titan::nn {

// This rank's tokens -> all tokens, for matrices that are split over the ranks. Backward sums over
// them.
at::Tensor gather_sequence(const at::Tensor& x, const comm::Group& tp);
// What the split matrices give, partial sums for all tokens -> the sums for this rank's tokens.
at::Tensor scatter_sequence(const at::Tensor& x, const comm::Group& tp,
                            ops::Replay replay = ops::Replay::kOutputNeeded);

}  // namespace titan::nn
