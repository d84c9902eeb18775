#include "ops/partial_attention_kernels.h"

#include <ATen/Context.h>

#include <limits>

#include "base/error.h"
#include "ops/npu_ops.h"

namespace titan::ops {
namespace {

using at::Tensor;

// Kernels step over rows and heads by strides but want the elements of a head side by side.
Tensor dense_rows(const Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

std::optional<Tensor> over_heads(const Tensor& mask, const Tensor& q) {
  if (!mask.defined()) return std::nullopt;
  return mask.expand({-1, q.size(1), -1, -1});
}

// Below this many queries or keys cuDNN is not asked: what it supports there changes with its
// version.
constexpr int64_t kCudnnTokens = 64;

}  // namespace

Tensor repeat_heads(const Tensor& x, int64_t times) {
  if (times == 1) return x;
  return x.unsqueeze(2).expand({x.size(0), x.size(1), times, x.size(2), x.size(3)}).flatten(1, 2);
}

Tensor sum_heads(const Tensor& x, int64_t times) {
  return times == 1 ? x : x.unflatten(1, {x.size(1) / times, times}).sum(2);
}

AttentionKernel attention_kernel(const Tensor& q, int64_t num_keys, bool masked) {
  if (q.is_cpu()) return masked ? AttentionKernel::kPlain : AttentionKernel::kCpuFlash;
  const auto dtype = q.scalar_type();
  const int64_t head_dim = q.size(3);
  if (npu::is_npu(q) && !masked) return AttentionKernel::kNpuFusion;
  if (!q.is_cuda() || dtype == at::kDouble || head_dim % 8 != 0) {
    return AttentionKernel::kPlain;
  }
  if (masked || dtype == at::kFloat || head_dim > 256) return AttentionKernel::kCudaEfficient;
  const auto& context = at::globalContext();
  const bool cudnn = at::Context::hasCuDNN() && context.userEnabledCuDNNSDP() &&
                     !context.deterministicAlgorithms() && head_dim <= 128 &&
                     std::min(q.size(2), num_keys) >= kCudnnTokens;
  return cudnn ? AttentionKernel::kCudaCudnn : AttentionKernel::kCudaFlash;
}

PartialAttention run_attention_kernel(AttentionKernel kernel, const Tensor& query,
                                      const Tensor& key, const Tensor& value, bool causal,
                                      const Tensor& mask) {
  const Tensor q = dense_rows(query), k = dense_rows(key), v = dense_rows(value);
  const std::vector<int64_t> rows = {q.size(0), q.size(1), q.size(2)};
  switch (kernel) {
    case AttentionKernel::kCpuFlash: {
      auto [out, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal);
      return {out, logsumexp};
    }
    case AttentionKernel::kCudaFlash: {
      const auto result = at::_scaled_dot_product_flash_attention(q, k, v, 0.0, causal, false);
      return {std::get<0>(result), std::get<1>(result).narrow(2, 0, q.size(2))};
    }
    case AttentionKernel::kCudaCudnn: {
      const auto result =
          at::_scaled_dot_product_cudnn_attention(q, k, v, std::nullopt, true, 0.0, causal, false);
      return {std::get<0>(result), std::get<1>(result).reshape(rows)};
    }
    case AttentionKernel::kCudaEfficient: {
      const auto result = at::_scaled_dot_product_efficient_attention(q, k, v, over_heads(mask, q),
                                                                      true, 0.0, causal);
      return {std::get<0>(result), std::get<1>(result).narrow(2, 0, q.size(2))};
    }
    case AttentionKernel::kNpuFusion: {
      const auto result = npu::attention(q, k, v, causal);
      return {result.out, (result.softmax_sum.log() + result.softmax_max).select(-1, 0)};
    }
    case AttentionKernel::kPlain:
      break;
  }
  throw InternalError("[internal] the plain maths of attention is no kernel");
}

AttentionGradients run_attention_kernel_backward(AttentionKernel kernel, const Tensor& grad_out,
                                                 const Tensor& query, const Tensor& key,
                                                 const Tensor& value, const Tensor& output,
                                                 const Tensor& logsumexp, bool causal,
                                                 const Tensor& mask) {
  const Tensor q = dense_rows(query), k = dense_rows(key), v = dense_rows(value);
  const Tensor grad = dense_rows(grad_out), out = dense_rows(output);
  if (kernel == AttentionKernel::kNpuFusion) {
    auto [dq, dk, dv] = npu::attention_backward(grad, q, k, v, out, logsumexp, causal);
    return {dq, dk, dv};
  }
  if (kernel == AttentionKernel::kCpuFlash) {
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, out, logsumexp, 0.0, causal);
    return {dq, dk, dv};
  }
  // Without dropout the state of the random numbers is not read.
  const Tensor state = at::zeros({2}, q.options().dtype(at::kLong));
  const Tensor seed = state.select(0, 0), offset = state.select(0, 1);
  if (kernel == AttentionKernel::kCudaFlash) {
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_backward(
        grad, q, k, v, out, logsumexp.contiguous(), Tensor(), Tensor(), q.size(2), k.size(2), 0.0,
        causal, state.view(at::kUInt64), offset.view(at::kUInt64));
    return {dq, dk, dv};
  }
  if (kernel == AttentionKernel::kCudaCudnn) {
    auto [dq, dk, dv] = at::_scaled_dot_product_cudnn_attention_backward(
        grad, q, k, v, out, logsumexp.contiguous().unsqueeze(-1), seed, offset, Tensor(), Tensor(),
        Tensor(), q.size(2), k.size(2), 0.0, causal);
    return {dq, dk, dv};
  }
  // The kernel reads its logsumexp in rows of a multiple of 32, and in float16 and bfloat16 its
  // output as the forward pass laid it, whatever the strides say.
  const int64_t padding = (32 - q.size(2) % 32) % 32;
  const Tensor rows =
      at::constant_pad_nd(logsumexp, {0, padding}, std::numeric_limits<float>::infinity());
  auto [dq, dk, dv, dmask] = at::_scaled_dot_product_efficient_attention_backward(
      grad, q, k, v, over_heads(mask, q).value_or(Tensor()),
      out.transpose(1, 2).contiguous().transpose(1, 2), rows.contiguous(), seed, offset, 0.0,
      {true, true, true, false}, causal);
  return {dq, dk, dv};
}

}  // namespace titan::ops
