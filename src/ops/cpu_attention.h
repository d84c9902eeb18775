// Causal self-attention for CPUs in float32, for heads of few elements: libtorch's kernel hands
// them to a matrix library one small block at a time. Here the products are tiles held in registers
// over operands packed once per key-value head (Dao et al. 2022, arXiv 2205.14135, without its
// blocks of keys: a group of queries sees all of its scores in cache).
#pragma once

#include <cstdint>

namespace titan::ops::cpu {

struct AttentionSizes {
  int64_t batch, heads, kv_heads, tokens, head_dim;  // heads a multiple of kv_heads
};

// A [batch, heads, tokens, head_dim] array whose elements of a head lie next to each other.
struct HeadArray {
  float* data;
  int64_t batch_stride, head_stride, token_stride;
};

// Whether the kernels take these: head_dim a multiple of 16, scores of a group of queries and the
// packed operands within a core's cache.
bool attention_serves(const AttentionSizes& sizes);

// out = softmax(q k^T / sqrt(head_dim)) v, query i over keys 0..i; logsumexp [batch, heads, tokens]
// of the scaled scores. Inputs are not written.
void attention(const AttentionSizes& sizes, const HeadArray& q, const HeadArray& k,
               const HeadArray& v, const HeadArray& out, float* logsumexp);
// All of dq, dk, dv is written. Results do not depend on the number of threads.
void attention_backward(const AttentionSizes& sizes, const HeadArray& grad, const HeadArray& q,
                        const HeadArray& k, const HeadArray& v, const HeadArray& out,
                        const float* logsumexp, const HeadArray& dq, const HeadArray& dk,
                        const HeadArray& dv);

}  // namespace titan::ops::cpu
