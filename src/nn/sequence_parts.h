// Which tokens of a sequence a context-parallel rank holds, and packed documents. Head-tail deals
// chunks r and 2n-1-r of 2n to rank r, so that causal attention costs every rank the same; both
// chunks lie in the order of their positions.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

namespace titan::nn {

// Tokens [begin, begin + count) of a sequence.
struct TokenRange {
  int64_t begin = 0, count = 0;
  bool operator==(const TokenRange&) const = default;
};

// What rank `rank` of `size` holds of `seq_len` tokens, in order: one range, or head and tail.
// REQUIRES: size (2 * size with head_tail) divides seq_len.
std::vector<TokenRange> sequence_ranges(int64_t seq_len, int64_t size, int64_t rank,
                                        bool head_tail);

// Global positions [seq_len / size] int64 of a rank's tokens.
at::Tensor context_positions(int64_t seq_len, int64_t size, int64_t rank, bool head_tail,
                             at::Device device);

// A rank's part of the whole sequence along `dim`. Differentiable.
at::Tensor shard_sequence(const at::Tensor& x, int64_t dim, int64_t size, int64_t rank,
                          bool head_tail);
// The whole sequence from the parts of all ranks. Differentiable.
at::Tensor join_sequence(std::span<const at::Tensor> parts, int64_t dim, bool head_tail);

// Positions [B, T] that start at 0 in every document: documents [B, T] int64, a new document
// wherever the value differs from the token before.
at::Tensor document_positions(const at::Tensor& documents);
// The mask [B, 1, T, T] (true = visible) of causal attention inside documents, for ops::attention.
// Tokens of equal ids are one document, also when others lie between them.
at::Tensor document_mask(const at::Tensor& documents);

}  // namespace titan::nn
