// titan's own CUDA operators, called through the dispatcher by schema: they are registered by the
// CUDA module where it was built with a CUDA compiler (device/cuda/operators.cpp). None of them is
// differentiable.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <utility>

namespace titan::ops::cuda {

// True for tensors on a GPU in a dtype that the operators take, where they are registered.
bool has_operators(const at::Tensor& x);
// Whether rms_norm() takes rows of x's last dimension.
bool rms_norm_serves(const at::Tensor& x);

struct Normed {
  at::Tensor y, inverse_rms;  // as x; [rows] float32
};
// See ops::rms_norm; x and weight contiguous.
Normed rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);
struct NormGradients {
  at::Tensor dx, dw;
};
// dx has `residual` added.
NormGradients rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& inverse_rms,
                                const std::optional<at::Tensor>& residual = std::nullopt);

// packed [B, T, (queries + 2 keys) head_dim]: the heads of queries, keys, values; queries and keys
// are turned in place. cos and sin: see ops::rope.
void rope_packed_(at::Tensor& packed, const at::Tensor& cos, const at::Tensor& sin, int64_t queries,
                  int64_t keys, int64_t head_dim, bool interleaved);
// dq [B, T, queries, head_dim], dk, dv [B, T, keys, head_dim] -> the gradient of the projections.
at::Tensor rope_packed_backward(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv,
                                const at::Tensor& cos, const at::Tensor& sin, bool interleaved);

// Causal attention of whole sequences for small heads. q [B, H, T, D], k and v [B, K, T, D] whose
// heads lie behind each other in a token, as views of packed projections do.
bool attention_serves(const at::Tensor& q, int64_t kv_heads);
struct Attended {
  at::Tensor out;        // [B, H, T, D], by token in memory
  at::Tensor logsumexp;  // [B, H, T] float32, to the base 2
};
Attended attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);
struct AttentionGradients {
  at::Tensor q, k, v;  // by token in memory
};
// The same result every time.
AttentionGradients attention_backward(const at::Tensor& grad, const at::Tensor& q,
                                      const at::Tensor& k, const at::Tensor& v,
                                      const Attended& attended);

// gate_up [..., 2 hidden]: gate, then up. -> [..., hidden].
at::Tensor swiglu(const at::Tensor& gate_up);
at::Tensor swiglu_backward(const at::Tensor& dy, const at::Tensor& gate_up);

// logits [n, vocab] contiguous, labels [n] int64 -> losses [n] float32, 0 where the label is
// `ignored`. With `scale`, a float32 scalar on the device, the logits become their gradient times
// it.
at::Tensor cross_entropy_(at::Tensor& logits, const at::Tensor& labels, int64_t ignored,
                          const std::optional<at::Tensor>& scale);

// a [m, k] b [k, n] (+ added) -> [m, n] in `dtype`, by default theirs; transposed views are free.
at::Tensor matmul(const at::Tensor& a, const at::Tensor& b,
                  const std::optional<at::Tensor>& added = std::nullopt,
                  std::optional<at::ScalarType> dtype = std::nullopt);
// sum [m, n], in their dtype or float32, += a b.
void matmul_add_(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b);

// A matrix in float8 with one scale: its values are the numbers times `scale`, [4] float32 on the
// device, of which the first counts.
struct Float8Matrix {
  at::Tensor by_row, by_column;  // [m, n] and [n, m], row-major; undefined where not asked for
  at::Tensor scale;
};
enum class Float8Format { kE4M3, kE5M2 };  // of values and weights; of gradients
enum class Float8Order { kRows, kColumns, kBoth };
// Whether the GPU multiplies float8. Matrices that are cast hold 16-bit elements, in sizes that are
// multiples of 16.
bool has_float8(at::Device device);
Float8Matrix float8_cast(const at::Tensor& x, Float8Format format, Float8Order order);
// a [m, k] by rows, b [n, k] by rows -> a b^T (+ added) [m, n] in `dtype`. fast_sums: in fewer bits
// than float32.
at::Tensor float8_matmul(const at::Tensor& a, const at::Tensor& scale_a, const at::Tensor& b,
                         const at::Tensor& scale_b, const std::optional<at::Tensor>& added,
                         at::ScalarType dtype, bool fast_sums);

}  // namespace titan::ops::cuda
