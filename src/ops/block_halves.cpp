#include "ops/block_halves.h"

#include <ATen/SDPBackend.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>

#include "ops/cuda_ops.h"
#include "ops/npu_halves.h"
#include "ops/npu_ops.h"
#include "ops/recompute.h"
#include "ops/stack_rows.h"

namespace titan::ops {
namespace {

using at::SDPBackend;
using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor rows_of(const Tensor& x) { return x.flatten(0, -2); }

// A product x w^T of rows of x, in x's dtype or in float8, with what its gradients need.
class Product {
 public:
  // Tensors that save() adds.
  static constexpr size_t kKept = Float8Product::kKept;

  Product(const Tensor& x, const Tensor& w, bool float8) {
    if (float8) {
      float8_.emplace(Float8Recipe{}, rows_of(x), w);
    } else {
      x_ = rows_of(x);
      w_ = w;
    }
  }
  // From what was saved, for the gradients.
  Product(const variable_list& saved, size_t first, bool float8) {
    if (float8) {
      float8_.emplace(Float8Recipe{}, saved, first);
    } else {
      x_ = saved[first];
      w_ = saved[first + 1];
    }
  }

  void save(variable_list& list) const {
    if (float8_) return float8_->save(list);
    list.insert(list.end(), {x_, w_, Tensor(), Tensor()});
  }

  // [rows, out] (+ added)
  Tensor compute(at::ScalarType dtype, const std::optional<Tensor>& added = std::nullopt) const {
    return float8_ ? float8_->compute(dtype, added) : cuda::matmul(x_, w_.t(), added);
  }

  struct Gradients {
    Tensor dx, dw;  // [rows, in], [out, in]
  };
  Gradients gradients(const Tensor& dy_in, at::ScalarType dw_dtype) const {
    const Tensor dy = rows_of(dy_in);
    if (!float8_) {
      return {cuda::matmul(dy, w_), cuda::matmul(dy.t(), x_, std::nullopt, dw_dtype)};
    }
    const auto incoming = float8_->incoming(dy);
    return {float8_->input_gradient(incoming), float8_->weight_gradient(incoming, dw_dtype)};
  }

 private:
  std::optional<Float8Product> float8_;
  Tensor x_, w_;  // without float8
};

// Queries, keys, values as the attention kernels take them, [B, heads, T, head_dim], in packed
// [B, T, width].
struct Projections {
  Tensor q, k, v;

  Projections(const Tensor& packed, int64_t heads, int64_t kv_heads, int64_t head_dim) {
    const Tensor by_head = packed.view({packed.size(0), packed.size(1), -1, head_dim});
    const auto take = [&](int64_t begin, int64_t count) {
      return by_head.narrow(2, begin, count).transpose(1, 2);
    };
    q = take(0, heads);
    k = take(heads, kv_heads);
    v = take(heads + kv_heads, kv_heads);
  }
};

SDPBackend attention_kernel(const Projections& p) {
  return static_cast<SDPBackend>(at::_fused_sdp_choice(p.q, p.k, p.v, std::nullopt, 0.0,
                                                       /*is_causal=*/true, std::nullopt,
                                                       p.q.size(1) != p.k.size(1)));
}

struct Attended {
  Tensor out;           // [B, heads, T, head_dim], [B, T, heads, head_dim] in memory
  Tensor logsumexp;     // as the kernel's gradient wants it
  Tensor seed, offset;  // of dropout, of which there is none; the gradient's call wants them
};

Attended attend(SDPBackend kernel, const Projections& p) {
  if (kernel == SDPBackend::cudnn_attention) {
    auto [out, logsumexp, cum_q, cum_k, max_q, max_k, seed, offset, debug] =
        at::_scaled_dot_product_cudnn_attention(p.q, p.k, p.v, std::nullopt, /*logsumexp=*/true,
                                                0.0, /*is_causal=*/true, false);
    return {out, logsumexp, seed, offset};
  }
  auto [out, logsumexp, cum_q, cum_k, max_q, max_k, seed, offset, debug] =
      at::_scaled_dot_product_flash_attention(p.q, p.k, p.v, 0.0, /*is_causal=*/true, false);
  return {out, logsumexp, seed, offset};
}

std::tuple<Tensor, Tensor, Tensor> attend_backward(SDPBackend kernel, const Tensor& grad,
                                                   const Projections& p, const Attended& a) {
  const int64_t length = p.q.size(2);
  if (kernel == SDPBackend::cudnn_attention) {
    return at::_scaled_dot_product_cudnn_attention_backward(
        grad, p.q, p.k, p.v, a.out, a.logsumexp, a.seed, a.offset, Tensor(), Tensor(), Tensor(),
        length, length, 0.0, /*is_causal=*/true);
  }
  return at::_scaled_dot_product_flash_attention_backward(grad, p.q, p.k, p.v, a.out, a.logsumexp,
                                                          Tensor(), Tensor(), length, length, 0.0,
                                                          /*is_causal=*/true, a.seed, a.offset);
}

struct AttentionHalfFunction : torch::autograd::Function<AttentionHalfFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& norm, const Tensor& wq,
                        const Tensor& wk, const Tensor& wv, const Tensor& w_out,
                        const AttentionHalf& p, at::ScalarType gradients) {
    const Tensor w_qkv = stack_rows({wq, wk, wv});
    const auto [normed, inverse_rms] = cuda::rms_norm(x, norm, p.eps);
    const Product into(normed, w_qkv, p.float8.into.has_value());
    const Tensor packed =
        output_for_replay(Replay::kOutputNeeded, {x.size(0), x.size(1), w_qkv.size(0)}, x, [&] {
          Tensor y = into.compute(x.scalar_type()).view({x.size(0), x.size(1), w_qkv.size(0)});
          cuda::rope_packed_(y, p.cos, p.sin, p.heads, p.kv_heads, p.head_dim, p.interleaved_rope);
          return y;
        });
    const Projections projections(packed, p.heads, p.kv_heads, p.head_dim);
    const SDPBackend kernel = attention_kernel(projections);
    std::optional<Attended> computed;
    const auto part = [&](Tensor Attended::*member) {
      return output_for_replay(Replay::kOutputNeeded, {0}, x, [&] {
        if (!computed) computed = attend(kernel, projections);
        const Tensor& value = (*computed).*member;
        return value.defined() ? value : at::empty({0}, x.options().dtype(at::kLong));
      });
    };
    const Attended attended{part(&Attended::out), part(&Attended::logsumexp), part(&Attended::seed),
                            part(&Attended::offset)};
    const Tensor seen = attended.out.transpose(1, 2).flatten(2);
    const Product out_of(seen, w_out, p.float8.out_of.has_value());
    variable_list saved{x,
                        norm,
                        p.cos,
                        p.sin,
                        inverse_rms,
                        packed,
                        attended.out,
                        attended.logsumexp,
                        attended.seed,
                        attended.offset};
    into.save(saved);
    out_of.save(saved);
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["into"] = p.float8.into.has_value();
    ctx->saved_data["out_of"] = p.float8.out_of.has_value();
    ctx->saved_data["kernel"] = static_cast<int64_t>(kernel);
    ctx->saved_data["gradients"] = gradients;
    ctx->saved_data["heads"] = p.heads;
    ctx->saved_data["kv_heads"] = p.kv_heads;
    ctx->saved_data["head_dim"] = p.head_dim;
    ctx->saved_data["interleaved"] = p.interleaved_rope;
    return output_for_replay(Replay::kOutputNeeded, x.sizes(), x, [&] {
      return out_of.compute(x.scalar_type(), rows_of(x)).view(x.sizes());
    });
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &norm = saved[1], &cos = saved[2], &sin = saved[3],
                 &inverse_rms = saved[4], &packed = saved[5];
    const Attended attended{saved[6], saved[7], saved[8], saved[9]};
    const Product into(saved, 10, ctx->saved_data["into"].toBool());
    const Product out_of(saved, 10 + Product::kKept, ctx->saved_data["out_of"].toBool());
    const auto kernel = static_cast<SDPBackend>(ctx->saved_data["kernel"].toInt());
    const int64_t heads = ctx->saved_data["heads"].toInt(),
                  kv_heads = ctx->saved_data["kv_heads"].toInt(),
                  head_dim = ctx->saved_data["head_dim"].toInt();
    const auto gradients = ctx->saved_data["gradients"].toScalarType();
    const Tensor grad = grads[0].contiguous();
    const auto [d_flat, dw_out] = out_of.gradients(grad, gradients);
    const Tensor d_seen = d_flat.view({x.size(0), x.size(1), heads, head_dim}).transpose(1, 2);
    const auto [dq, dk, dv] =
        attend_backward(kernel, d_seen, Projections(packed, heads, kv_heads, head_dim), attended);
    const auto by_token = [](const Tensor& d) { return d.transpose(1, 2).contiguous(); };
    const Tensor d_packed =
        cuda::rope_packed_backward(by_token(dq), by_token(dk), by_token(dv), cos, sin,
                                   ctx->saved_data["interleaved"].toBool());
    const auto [d_normed, dw_qkv] = into.gradients(d_packed, gradients);
    const auto [dx, d_norm] =
        cuda::rms_norm_backward(d_normed.view(x.sizes()), x, norm, inverse_rms, grad);
    auto rows = [&dw_qkv = dw_qkv, begin = int64_t{0}](int64_t count) mutable {
      return dw_qkv.narrow(0, std::exchange(begin, begin + count), count);
    };
    const Tensor dwq = rows(heads * head_dim), dwk = rows(kv_heads * head_dim),
                 dwv = rows(kv_heads * head_dim);
    return {dx, d_norm, dwq, dwk, dwv, dw_out, Tensor(), Tensor()};
  }
};

struct FeedForwardHalfFunction : torch::autograd::Function<FeedForwardHalfFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& norm,
                        const Tensor& w_gate, const Tensor& w_up, const Tensor& w_down, double eps,
                        Float8Products float8, at::ScalarType gradients) {
    const Tensor w_gate_up = stack_rows({w_gate, w_up});
    const auto [normed, inverse_rms] = cuda::rms_norm(x, norm, eps);
    const int64_t tokens = x.numel() / x.size(-1);
    const Product into(normed, w_gate_up, float8.into.has_value());
    const Tensor gate_up = output_for_replay(Replay::kOutputNeeded, {tokens, w_gate_up.size(0)}, x,
                                             [&] { return into.compute(x.scalar_type()); });
    const Product out_of(cuda::swiglu(gate_up), w_down, float8.out_of.has_value());
    variable_list saved{x, norm, inverse_rms, gate_up};
    into.save(saved);
    out_of.save(saved);
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["into"] = float8.into.has_value();
    ctx->saved_data["out_of"] = float8.out_of.has_value();
    ctx->saved_data["gradients"] = gradients;
    return output_for_replay(Replay::kOutputUnused, x.sizes(), x, [&] {
      return out_of.compute(x.scalar_type(), rows_of(x)).view(x.sizes());
    });
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &norm = saved[1], &inverse_rms = saved[2], &gate_up = saved[3];
    const Product into(saved, 4, ctx->saved_data["into"].toBool());
    const Product out_of(saved, 4 + Product::kKept, ctx->saved_data["out_of"].toBool());
    const auto gradients = ctx->saved_data["gradients"].toScalarType();
    const Tensor grad = grads[0].contiguous();
    const auto [d_hidden, dw_down] = out_of.gradients(grad, gradients);
    const auto [d_normed, dw_gate_up] =
        into.gradients(cuda::swiglu_backward(d_hidden, gate_up), gradients);
    const auto [dx, d_norm] =
        cuda::rms_norm_backward(d_normed.view(x.sizes()), x, norm, inverse_rms, grad);
    const auto by_half = dw_gate_up.chunk(2, 0);
    return {dx, d_norm, by_half[0], by_half[1], dw_down, Tensor(), Tensor(), Tensor()};
  }
};

bool is_half_precision(const Tensor& x) {
  return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf;
}

}  // namespace

bool attention_half_serves(const Tensor& x, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  if (npu::is_npu(x)) return true;
  // A rotation works on pairs of vectors of 8 elements.
  if (!cuda::rms_norm_serves(x) || !is_half_precision(x) || head_dim % 16 != 0) return false;
  // Sizes and strides decide, not memory.
  const int64_t width = (heads + 2 * kv_heads) * head_dim;
  const Tensor like = at::empty({width}, x.options()).expand({x.size(0), x.size(1), width});
  const SDPBackend kernel = attention_kernel(Projections(like, heads, kv_heads, head_dim));
  return kernel == SDPBackend::cudnn_attention || kernel == SDPBackend::flash_attention;
}

bool feed_forward_half_serves(const Tensor& x, int64_t hidden) {
  if (npu::is_npu(x)) return true;
  return cuda::rms_norm_serves(x) && is_half_precision(x) && hidden % 8 == 0;
}

bool fused_halves_take(const Float8Products& float8) {
  const auto taken = [](const std::optional<Float8Recipe>& recipe) {
    return !recipe || recipe == Float8Recipe{};
  };
  return taken(float8.into) && taken(float8.out_of);
}

Tensor attention_half(const Tensor& x, const AttentionHalf& p) {
  if (npu::is_npu(x)) return npu::attention_half(x, p);
  AttentionHalf given = p;
  given.cos = p.cos.contiguous();
  given.sin = p.sin.contiguous();
  return AttentionHalfFunction::apply(x.contiguous(), p.norm, p.wq, p.wk, p.wv, p.w_out, given,
                                      gradient_dtype(p.wq));
}

Tensor feed_forward_half(const Tensor& x, const FeedForwardHalf& p) {
  if (npu::is_npu(x)) return npu::feed_forward_half(x, p);
  return FeedForwardHalfFunction::apply(x.contiguous(), p.norm, p.w_gate, p.w_up, p.w_down, p.eps,
                                        p.float8, gradient_dtype(p.w_gate));
}

}  // namespace titan::ops
