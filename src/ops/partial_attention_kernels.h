// libtorch's attention kernels that give a logsumexp, behind one pair of functions.
#pragma once

#include "ops/partial_attention.h"

namespace titan::ops {

// A score that no query sees. Finite, so that a row that sees nothing stays free of NaN; its
// logsumexp is so low that the row's weight in a merge, and its probabilities under the logsumexp
// of the whole softmax, are exactly 0.
constexpr double kUnseen = -1e30;

// Each head `times` times, side by side, and the gradient of that.
at::Tensor repeat_heads(const at::Tensor& x, int64_t times);
at::Tensor sum_heads(const at::Tensor& x, int64_t times);

// q [B, H, T, D], k and v [B, H, S, D]: equal numbers of heads, kNpuFusion takes grouped ones.
// `mask` [B, 1, T, S] in the dtype of q is added to the scores; kernels of kCudaEfficient alone
// take one. REQUIRES: not kPlain.
PartialAttention run_attention_kernel(AttentionKernel kernel, const at::Tensor& q,
                                      const at::Tensor& k, const at::Tensor& v, bool causal,
                                      const at::Tensor& mask = {});
AttentionGradients run_attention_kernel_backward(AttentionKernel kernel, const at::Tensor& grad,
                                                 const at::Tensor& q, const at::Tensor& k,
                                                 const at::Tensor& v, const at::Tensor& out,
                                                 const at::Tensor& logsumexp, bool causal,
                                                 const at::Tensor& mask = {});

}  // namespace titan::ops
