#include "ops/cuda_ops.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace titan::ops::cuda {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

namespace {

template <class Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// The largest rows that the norm's kernels keep in registers, in bytes.
constexpr int64_t kLongestRow = 32768;

}  // namespace

bool has_operators(const Tensor& x) {
  if (!x.is_cuda()) return false;
  const auto dtype = x.scalar_type();
  if (dtype != at::kBFloat16 && dtype != at::kHalf && dtype != at::kFloat) return false;
  // The module that registers them is loaded before there are tensors on a GPU.
  static const bool registered =
      c10::Dispatcher::singleton().findSchema({"titan::rms_norm", ""}).has_value();
  return registered;
}

bool rms_norm_serves(const Tensor& x) {
  if (!has_operators(x) || x.dim() == 0) return false;
  const int64_t bytes = x.size(-1) * x.element_size();
  return bytes > 0 && bytes % 16 == 0 && bytes <= kLongestRow;
}

Normed rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  static const auto op =
      find<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, double)>("titan::rms_norm");
  auto [y, inverse_rms] = op.call(x, weight, eps);
  return {y, inverse_rms};
}

NormGradients rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const Tensor& inverse_rms, const OptionalTensor& residual) {
  static const auto op =
      find<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                      const OptionalTensor&)>("titan::rms_norm_backward");
  auto [dx, dw] = op.call(dy, x, weight, inverse_rms, residual);
  return {dx, dw};
}

void rope_packed_(Tensor& packed, const Tensor& cos, const Tensor& sin, int64_t queries,
                  int64_t keys, int64_t head_dim, bool interleaved) {
  static const auto op =
      find<void(Tensor&, const Tensor&, const Tensor&, int64_t, int64_t, int64_t, bool)>(
          "titan::rope_packed_");
  op.call(packed, cos, sin, queries, keys, head_dim, interleaved);
}

Tensor rope_packed_backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& cos,
                            const Tensor& sin, bool interleaved) {
  static const auto op =
      find<Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool)>(
          "titan::rope_packed_backward");
  return op.call(dq, dk, dv, cos, sin, interleaved);
}

bool attention_serves(const Tensor& q, int64_t kv_heads) {
  const int64_t head_dim = q.size(3);
  return has_operators(q) && q.element_size() == 2 && (head_dim == 16 || head_dim == 32) &&
         q.size(1) % kv_heads == 0;
}

Attended attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  static const auto op =
      find<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&)>(
          "titan::attention");
  auto [out, logsumexp] = op.call(q, k, v);
  return {out, logsumexp};
}

AttentionGradients attention_backward(const Tensor& grad, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const Attended& attended) {
  static const auto op = find<std::tuple<Tensor, Tensor, Tensor>(
      const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&)>(
      "titan::attention_backward");
  auto [dq, dk, dv] = op.call(grad, q, k, v, attended.out, attended.logsumexp);
  return {dq, dk, dv};
}

Tensor swiglu(const Tensor& gate_up) {
  static const auto op = find<Tensor(const Tensor&)>("titan::swiglu");
  return op.call(gate_up);
}

Tensor swiglu_backward(const Tensor& dy, const Tensor& gate_up) {
  static const auto op = find<Tensor(const Tensor&, const Tensor&)>("titan::swiglu_backward");
  return op.call(dy, gate_up);
}

Tensor cross_entropy_(Tensor& logits, const Tensor& labels, int64_t ignored,
                      const OptionalTensor& scale) {
  static const auto op =
      find<Tensor(Tensor&, const Tensor&, int64_t, const OptionalTensor&)>("titan::cross_entropy_");
  return op.call(logits, labels, ignored, scale);
}

Tensor matmul(const Tensor& a, const Tensor& b, const OptionalTensor& added,
              std::optional<at::ScalarType> dtype) {
  static const auto op = find<Tensor(const Tensor&, const Tensor&, const OptionalTensor&,
                                     std::optional<at::ScalarType>)>("titan::matmul");
  return op.call(a, b, added, dtype);
}

void matmul_add_(Tensor& sum, const Tensor& a, const Tensor& b) {
  static const auto op = find<void(Tensor&, const Tensor&, const Tensor&)>("titan::matmul_add_");
  op.call(sum, a, b);
}

bool has_float8(at::Device device) {
  static const auto op = find<bool(int64_t)>("titan::has_float8");
  return op.call(device.index());
}

Float8Matrix float8_cast(const Tensor& x, Float8Format format, Float8Order order) {
  static const auto op =
      find<std::tuple<Tensor, Tensor, Tensor>(const Tensor&, at::ScalarType, bool, bool)>(
          "titan::float8_cast");
  auto [by_row, by_column, scale] =
      op.call(x, format == Float8Format::kE4M3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2,
              order != Float8Order::kColumns, order != Float8Order::kRows);
  return {by_row, by_column, scale};
}

Tensor float8_matmul(const Tensor& a, const Tensor& scale_a, const Tensor& b, const Tensor& scale_b,
                     const OptionalTensor& added, at::ScalarType dtype, bool fast_sums) {
  static const auto op =
      find<Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&,
                  at::ScalarType, bool)>("titan::float8_matmul");
  return op.call(a, b.t(), scale_a, scale_b, added, dtype, fast_sums);
}

}  // namespace titan::ops::cuda
