// torch_npu's fused operators, called through the dispatcher by schema: no vendor header, no link
// to it. Each is found once, when it is first called. The schemas that the calls are written for
// stand in npu_schemas(); a test compares them with what the installed torch_npu registers.
//
// What the chips lack is not asked for: no float64, no complex numbers.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <span>
#include <utility>

namespace titan::ops::npu {

struct Schema {
  const char* name;  // "npu::npu_swiglu"
  const char* text;  // "npu::npu_swiglu(Tensor input, int dim=-1) -> Tensor"
  // Of another torch_npu that can be used too; the call is chosen by what is registered.
  const char* other = nullptr;
};
std::span<const Schema> npu_schemas();

inline bool is_npu(const at::Tensor& x) { return x.is_privateuseone(); }

// See ops::rms_norm; `out` is differentiable by torch_npu.
struct RmsNorm {
  at::Tensor out, inverse_rms;
};
RmsNorm rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);
// Gradients of x and of the weight.
std::pair<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& grad, const at::Tensor& x,
                                                    const at::Tensor& weight,
                                                    const at::Tensor& inverse_rms);

// x [B, T, H, D] float32; cos and sin [T, D] or [B, T, D], or those with a dimension over the
// heads, float32: an angle per element. Not differentiable.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                  bool interleaved);
// By the opposite angles: the gradient of rotate().
at::Tensor rotate_back(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                       bool interleaved);

// gate_and_up holds both behind each other along dimension 0. Not differentiable.
at::Tensor swiglu(const at::Tensor& gate_and_up);
at::Tensor swiglu_backward(const at::Tensor& grad, const at::Tensor& gate_and_up);

// Cross-entropy of logits [n, vocab] float32. Every label is in 0..vocab-1: the chip's kernel masks
// no negative one. Not differentiable.
struct CrossEntropy {
  at::Tensor losses;             // [n]
  at::Tensor log_probabilities;  // [n, vocab]
};
CrossEntropy cross_entropy(const at::Tensor& logits, const at::Tensor& labels);
// `grad` [n] -> the gradient of the logits.
at::Tensor cross_entropy_backward(const at::Tensor& grad, const at::Tensor& log_probabilities,
                                  const at::Tensor& labels);

// q [B, H, T, D], k and v [B, K, S, D], H a multiple of K; any strides. Causal needs T == S.
// `hidden` [B or 1, 1, T, S] bool, true = not seen, instead of causality.
struct Attention {
  at::Tensor out;                       // [B, H, T, D]
  at::Tensor softmax_max, softmax_sum;  // [B, H, T, 8] float32
};
// Differentiable by torch_npu in `out`.
Attention attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal,
                    const std::optional<at::Tensor>& hidden = std::nullopt);

struct AttentionGradients {
  at::Tensor q, k, v;
};
// The same of contiguous tensors [B, T, heads, D], without a gradient and with it given `done`.
Attention attention_by_token(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             bool causal);
AttentionGradients attention_by_token_backward(const at::Tensor& grad, const at::Tensor& q,
                                               const at::Tensor& k, const at::Tensor& v,
                                               const Attention& done, bool causal);

// Of attention() without `hidden`; the softmax is given by the logsumexp [B, H, T] of its scores.
AttentionGradients attention_backward(const at::Tensor& grad, const at::Tensor& q,
                                      const at::Tensor& k, const at::Tensor& v,
                                      const at::Tensor& out, const at::Tensor& logsumexp,
                                      bool causal);

}  // namespace titan::ops::npu
