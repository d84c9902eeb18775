// Matrices that are split over the tensor-parallel ranks, with the messages of sequence parallelism
// around them (nn/sequence.h). With TensorParallel::overlap both are taken apart by tokens: the
// product of one rank's tokens is computed while another's travel (comm/ring.h), in the forward and
// the backward pass. Values are the same up to the order of sums, bytes exactly.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "nn/axes.h"
#include "ops/float8_product.h"
#include "ops/recompute.h"

namespace titan::nn {

struct Projection {
  at::Tensor weight;  // [out of this rank, in]
  ops::Replay replay = ops::Replay::kOutputNeeded;
  std::optional<ops::Float8Recipe> float8;  // not with overlapped messages
};

// x [B, T / tp, in], this rank's tokens -> for each projection [B, T, out], all tokens. The tokens
// are gathered once for all. Collective, in the forward and the backward pass.
std::vector<at::Tensor> gather_linear(const at::Tensor& x,
                                      const std::vector<Projection>& projections, const Axes& axes);

// y [B, T, in of this rank], weight [out, in of this rank] -> [B, T / tp, out]: the sums over the
// ranks for this rank's tokens. Collective, in the forward and the backward pass.
at::Tensor linear_scatter(const at::Tensor& y, const at::Tensor& weight, const Axes& axes,
                          ops::Replay replay = ops::Replay::kOutputNeeded,
                          const std::optional<ops::Float8Recipe>& float8 = std::nullopt);

}  // namespace titan::nn
