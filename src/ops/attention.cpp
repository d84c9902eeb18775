#include "ops/attention.h"

#include <cmath>

#include "ops/npu_ops.h"
#include "ops/recompute.h"

namespace titan::ops {
namespace {

using at::Tensor;

// libtorch's flash kernel for CPUs takes equal numbers of heads only; expanding here keeps it on
// that kernel.
Tensor repeat_kv_heads(const Tensor& x, int64_t times) {
  if (times == 1) return x;
  const auto b = x.size(0), k = x.size(1), s = x.size(2), d = x.size(3);
  return x.unsqueeze(2).expand({b, k, times, s, d}).reshape({b, k * times, s, d});
}

}  // namespace

namespace reference {

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const std::optional<Tensor>& mask) {
  const int64_t times = q.size(1) / k.size(1);
  const auto wide = at::promote_types(q.scalar_type(), at::kFloat);
  Tensor scores = at::matmul(q.to(wide), repeat_kv_heads(k, times).to(wide).transpose(-1, -2)) /
                  std::sqrt(static_cast<double>(q.size(-1)));
  const Tensor visible =
      mask ? *mask : at::ones({q.size(2), k.size(2)}, q.options().dtype(at::kBool)).tril();
  scores = scores.masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity());
  return at::matmul(scores.softmax(-1), repeat_kv_heads(v, times).to(wide)).to(q.scalar_type());
}

}  // namespace reference

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const std::optional<Tensor>& mask) {
  const int64_t times = q.size(1) / k.size(1);
  const bool causal = !mask && q.size(2) > 1;
  return kept_call([&] {
    if (npu::is_npu(q)) {
      std::optional<Tensor> hidden;
      if (mask) hidden = mask->logical_not();
      return npu::attention(q, k, v, causal, hidden).out;
    }
    if (times > 1 && q.size(2) == 1) {
      // One token sees the same keys from every head of a group: as queries of one head they read
      // them once.
      const Tensor grouped = q.reshape({q.size(0), k.size(1), times, q.size(3)});
      return at::scaled_dot_product_attention(grouped, k, v, mask, 0.0, false).reshape(q.sizes());
    }
    if (q.is_cpu()) {
      return at::scaled_dot_product_attention(q, repeat_kv_heads(k, times),
                                              repeat_kv_heads(v, times), mask, 0.0, causal);
    }
    return at::scaled_dot_product_attention(q, k, v, mask, 0.0, causal, std::nullopt, times > 1);
  });
}

}  // namespace titan::ops
