#include "ops/attention.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "base/platform.h"
#include "ops/cpu_attention.h"
#include "ops/npu_ops.h"
#include "ops/recompute.h"

namespace titan::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// libtorch's flash kernel for CPUs takes equal numbers of heads only; expanding here keeps it on
// that kernel.
Tensor repeat_kv_heads(const Tensor& x, int64_t times) {
  if (times == 1) return x;
  const auto b = x.size(0), k = x.size(1), s = x.size(2), d = x.size(3);
  return x.unsqueeze(2).expand({b, k, times, s, d}).reshape({b, k * times, s, d});
}

cpu::AttentionSizes sizes_of(const Tensor& q, const Tensor& k) {
  return {q.size(0), q.size(1), k.size(1), q.size(2), q.size(3)};
}

// Causal attention of whole sequences.
bool cpu_kernel_serves(const Tensor& q, const Tensor& k) {
  return q.is_cpu() && q.scalar_type() == at::kFloat && q.size(2) == k.size(2) && q.numel() > 0 &&
         cpu::attention_serves(sizes_of(q, k));
}

cpu::HeadArray heads_of(const Tensor& x) {
  return {const_cast<float*>(x.const_data_ptr<float>()), x.stride(0), x.stride(1), x.stride(2)};
}

Tensor with_whole_heads(const Tensor& x) { return x.stride(3) == 1 ? x : x.contiguous(); }

// [B, heads, T, D] as projections leave it in memory, [B, T, heads, D].
Tensor empty_by_token(const Tensor& like, int64_t heads) {
  return at::empty({like.size(0), like.size(2), heads, like.size(3)}, like.options())
      .transpose(1, 2);
}

struct CpuAttention : torch::autograd::Function<CpuAttention> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q_in, const Tensor& k_in,
                        const Tensor& v_in) {
    const Tensor q = with_whole_heads(q_in), k = with_whole_heads(k_in), v = with_whole_heads(v_in);
    const Tensor out = empty_by_token(q, q.size(1));
    const Tensor logsumexp = at::empty({q.size(0), q.size(1), q.size(2)}, q.options());
    cpu::attention(sizes_of(q, k), heads_of(q), heads_of(k), heads_of(v), heads_of(out),
                   logsumexp.mutable_data_ptr<float>());
    ctx->save_for_backward({q, k, v, out, logsumexp});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const Tensor grad = with_whole_heads(grads[0]);
    const Tensor dq = empty_by_token(q, q.size(1)), dk = empty_by_token(q, k.size(1)),
                 dv = empty_by_token(q, k.size(1));
    cpu::attention_backward(sizes_of(q, k), heads_of(grad), heads_of(q), heads_of(k), heads_of(v),
                            heads_of(saved[3]), saved[4].const_data_ptr<float>(), heads_of(dq),
                            heads_of(dk), heads_of(dv));
    return {dq, dk, dv};
  }
};

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
  static const bool bfloat16_in_hardware = cpu_multiplies_bfloat16();
  const auto dtype = q.scalar_type();
  if (q.is_cpu() && (dtype == at::kHalf || (dtype == at::kBFloat16 && !bfloat16_in_hardware))) {
    return attention(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), mask).to(dtype);
  }
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
    if (causal && cpu_kernel_serves(q, k)) return CpuAttention::apply(q, k, v);
    if (q.is_cpu()) {
      return at::scaled_dot_product_attention(q, repeat_kv_heads(k, times),
                                              repeat_kv_heads(v, times), mask, 0.0, causal);
    }
    return at::scaled_dot_product_attention(q, k, v, mask, 0.0, causal, std::nullopt, times > 1);
  });
}

}  // namespace titan::ops
