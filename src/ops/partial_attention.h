// Attention over a part of the keys. Parts of one softmax are computed apart and merged by their
// logsumexp (Rabe & Staats 2021, arXiv 2112.05682; Dao et al. 2022, arXiv 2205.14135): what context
// parallelism is made of. libtorch's kernels where they give a logsumexp, else plain maths in tiles
// of queries.
#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace titan::ops {

// What the queries of a part see of its keys.
struct Visibility {
  bool causal = false;  // query i sees keys 0..i; REQUIRES as many keys as queries
  // [B, T] and [B, S] int64, both or none: tokens of the same document only.
  at::Tensor query_documents, key_documents;

  bool masked() const { return query_documents.defined(); }
};

// The softmax over this part's keys alone. Where a query sees none of them, `out` is finite and
// `logsumexp` so low that the part weighs nothing in a merge.
struct PartialAttention {
  at::Tensor out;        // [B, H, T, D] in the dtype of q
  at::Tensor logsumexp;  // [B, H, T] of the scaled scores, float32, float64 for float64
};

enum class AttentionKernel {
  kPlain,
  kCpuFlash,
  kCudaFlash,
  kCudaCudnn,
  kCudaEfficient,
  kNpuFusion
};

// The kernel for queries of this device, dtype and sizes; the one place that decides.
AttentionKernel attention_kernel(const at::Tensor& q, int64_t num_keys, bool masked);

// q [B, H, T, D], k and v [B, K, S, D], H a multiple of K, S > 0; scale 1/sqrt(D). No gradient.
PartialAttention partial_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const Visibility& visibility);

struct AttentionGradients {
  at::Tensor q, k, v;  // like q, k, v
};

// The share of this part's keys in the gradients. `out` and `logsumexp` are of the whole softmax:
// with them the shares of all parts add up to the gradient.
AttentionGradients partial_attention_backward(const at::Tensor& grad, const at::Tensor& q,
                                              const at::Tensor& k, const at::Tensor& v,
                                              const at::Tensor& out, const at::Tensor& logsumexp,
                                              const Visibility& visibility);

// Adds the keys of `part` to the softmax in `out` [B, H, T, D] and `logsumexp` [B, H, T], both
// float32 or float64, in place.
void merge_partial_attention(at::Tensor& out, at::Tensor& logsumexp, const PartialAttention& part);

namespace reference {
PartialAttention partial_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const Visibility& visibility);
AttentionGradients partial_attention_backward(const at::Tensor& grad, const at::Tensor& q,
                                              const at::Tensor& k, const at::Tensor& v,
                                              const at::Tensor& out, const at::Tensor& logsumexp,
                                              const Visibility& visibility);
}  // namespace reference

}  // namespace titan::ops
