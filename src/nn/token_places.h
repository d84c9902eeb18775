// Where the tokens of a forward pass stand: positions and packed documents.
#pragma once

#include <ATen/ATen.h>

namespace titan::nn {

struct TokenPlaces {
  // For the rotation, of this rank's tokens (all of its tensor-parallel group's): [T] or [B, T]
  // int64; undefined: 0, 1, ….
  at::Tensor positions;
  // [B, whole sequence] int64, on every rank: a token sees tokens of its own document only;
  // undefined: every sample is one document.
  at::Tensor documents;

  // Of `count` samples from `first`.
  TokenPlaces rows(int64_t first, int64_t count) const {
    const auto cut = [&](const at::Tensor& x) {
      return x.defined() && x.dim() == 2 ? x.narrow(0, first, count) : x;
    };
    return {cut(positions), cut(documents)};
  }
};

}  // namespace titan::nn
