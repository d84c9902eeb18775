// Causal attention over global positions, as rectangles of queries and keys that are each seen
// wholly or causally: no mask is needed unless documents ask for one.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "nn/sequence_parts.h"

namespace titan::nn {

// Queries `queries` of a rank see keys `keys` of a buffer: all of them, or (causal) query i keys
// 0..i of the range.
struct AttentionPiece {
  TokenRange queries, keys;
  bool causal = false;
};

// A rank's queries against the keys of the whole sequence in order. The causal pieces come first
// and meet every query once.
std::vector<AttentionPiece> pieces_of_whole(int64_t seq_len, int64_t size, int64_t rank,
                                            bool head_tail);
// The queries of rank `rank` against the keys of rank `owner`, both `local` tokens: at most one
// piece; for owner == rank it is causal and meets every query.
std::vector<AttentionPiece> pieces_of_block(int64_t local, int64_t rank, int64_t owner,
                                            bool head_tail);

// The document of each query and key, [B, T] and [B, S] int64; undefined: no documents.
struct PieceDocuments {
  at::Tensor queries, keys;
};

// A softmax under way: what the pieces so far add up to.
struct AttentionSum {
  at::Tensor out;        // [B, H, T, D], float32 or float64 while pieces are added
  at::Tensor logsumexp;  // [B, H, T]
};

// Adds pieces; the first call on an empty sum must bring causal pieces that meet every query.
void add_pieces(AttentionSum& sum, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const std::vector<AttentionPiece>& pieces, const PieceDocuments& documents);

// Gradients of all pieces, in float32 or float64, added to where they are defined.
struct AttentionGradientSum {
  at::Tensor q, k, v;
};

// `out` and `logsumexp` of the whole softmax.
void add_piece_gradients(AttentionGradientSum& sum, const at::Tensor& grad, const at::Tensor& q,
                         const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                         const at::Tensor& logsumexp, const std::vector<AttentionPiece>& pieces,
                         const PieceDocuments& documents);

// Differentiable attention of the pieces: q [B, H, T, D], k and v [B, K, S, D] -> [B, H, T, D].
at::Tensor attention_of_pieces(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const std::vector<AttentionPiece>& pieces,
                               const PieceDocuments& documents);

}  // namespace titan::nn
