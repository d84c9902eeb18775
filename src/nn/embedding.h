// The input embedding, with the vocabulary split over the tensor-parallel ranks.
#pragma once

#include <ATen/ATen.h>

#include "comm/group.h"

namespace titan::nn {

// weight: this rank's rows of [vocab, dim], tokens [B, T] int64 -> [B, T / ranks, dim], this
// rank's part of the sequence. Rows are dealt by comm::balanced_part(vocab, …).
at::Tensor embedding(const at::Tensor& weight, const at::Tensor& tokens, int64_t vocab,
                     const comm::Group& tp);

}  // namespace titan::nn
