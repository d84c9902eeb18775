#include "ops/npu_halves.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>

#include "base/error.h"
#include "ops/npu_ops.h"
#include "ops/recompute.h"

namespace titan::ops::npu {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
// The functions below hold the gradients themselves: nothing inside them needs autograd's layers.
using BelowAutograd = at::AutoDispatchBelowADInplaceOrView;

Tensor rows_of(const Tensor& x) { return x.view({-1, x.size(-1)}); }

// x w^T
Tensor product(const Tensor& rows, const Tensor& w) { return at::mm(rows, w.t()); }

// By tables [1 or B, T, 1, D], computed in float32.
Tensor turn(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  return rotate(x.to(at::kFloat), cos, sin, interleaved).to(x.scalar_type());
}
Tensor turn_back(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  return rotate_back(x.to(at::kFloat), cos, sin, interleaved).to(x.scalar_type());
}

Tensor with_heads(const Tensor& table) {
  return table.dim() == 2 ? table.view({1, table.size(0), 1, table.size(1)}) : table.unsqueeze(2);
}

// Gradients of the norm and of the residual stream around it.
std::pair<Tensor, Tensor> through_norm(const Tensor& d_normed, const Tensor& x, const Tensor& norm,
                                       const Tensor& inverse_rms, const Tensor& d_residual) {
  auto gradients = rms_norm_backward(d_normed.view(x.sizes()), x, norm, inverse_rms);
  gradients.first.add_(d_residual);
  return gradients;
}

struct AttentionHalfFunction : torch::autograd::Function<AttentionHalfFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& norm, const Tensor& wq,
                        const Tensor& wk, const Tensor& wv, const Tensor& w_out,
                        const AttentionHalf& p) {
    const BelowAutograd below;
    const auto [normed, inverse_rms] = rms_norm(x, norm, p.eps);
    const Tensor rows = rows_of(normed);
    const Tensor cos = with_heads(p.cos), sin = with_heads(p.sin);
    const auto by_head = [&](const Tensor& w, int64_t heads, bool rotates) {
      const std::vector<int64_t> shape{x.size(0), x.size(1), heads, p.head_dim};
      return output_for_replay(Replay::kOutputNeeded, shape, x, [&] {
        const Tensor y = product(rows, w).view(shape);
        return rotates ? turn(y, cos, sin, p.interleaved_rope) : y;
      });
    };
    const Tensor q = by_head(wq, p.heads, true), k = by_head(wk, p.kv_heads, true),
                 v = by_head(wv, p.kv_heads, false);
    const bool causal = x.size(1) > 1;
    std::optional<Attention> computed;
    const auto part = [&](Tensor Attention::*member) {
      return output_for_replay(Replay::kOutputNeeded, {0}, x, [&] {
        if (!computed) computed = attention_by_token(q, k, v, causal);
        return (*computed).*member;
      });
    };
    const Attention seen{part(&Attention::out), part(&Attention::softmax_max),
                         part(&Attention::softmax_sum)};
    ctx->save_for_backward({x, norm, inverse_rms, normed, q, k, v, seen.out, seen.softmax_max,
                            seen.softmax_sum, cos, sin, wq, wk, wv, w_out});
    ctx->saved_data["interleaved"] = p.interleaved_rope;
    return output_for_replay(Replay::kOutputNeeded, x.sizes(), x, [&] {
      return product(seen.out.view({rows.size(0), -1}), w_out).view(x.sizes()).add_(x);
    });
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const BelowAutograd below;
    const Tensor &x = saved[0], &norm = saved[1], &inverse_rms = saved[2];
    const Tensor rows = rows_of(saved[3]);
    const Tensor &q = saved[4], &k = saved[5], &v = saved[6];
    const Attention seen{saved[7], saved[8], saved[9]};
    const Tensor &cos = saved[10], &sin = saved[11];
    const Tensor &wq = saved[12], &wk = saved[13], &wv = saved[14], &w_out = saved[15];
    const bool interleaved = ctx->saved_data["interleaved"].toBool();
    const Tensor grad = grads[0].contiguous(), d_out = rows_of(grad);

    const Tensor d_seen = at::mm(d_out, w_out).view(q.sizes());
    const Tensor dw_out = at::mm(d_out.t(), seen.out.view({rows.size(0), -1}));
    const auto d = attention_by_token_backward(d_seen, q, k, v, seen, x.size(1) > 1);
    const auto projected = [&](const Tensor& y) { return y.reshape({rows.size(0), -1}); };
    const Tensor dq = projected(turn_back(d.q, cos, sin, interleaved));
    const Tensor dk = projected(turn_back(d.k, cos, sin, interleaved));
    const Tensor dv = projected(d.v);
    const Tensor d_normed = at::mm(dq, wq).addmm_(dk, wk).addmm_(dv, wv);
    const Tensor dwq = at::mm(dq.t(), rows), dwk = at::mm(dk.t(), rows), dwv = at::mm(dv.t(), rows);
    const auto [dx, d_norm] = through_norm(d_normed, x, norm, inverse_rms, grad);
    return {dx, d_norm, dwq, dwk, dwv, dw_out, Tensor()};
  }
};

struct FeedForwardHalfFunction : torch::autograd::Function<FeedForwardHalfFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& norm,
                        const Tensor& w_gate, const Tensor& w_up, const Tensor& w_down,
                        double eps) {
    const BelowAutograd below;
    const auto [normed, inverse_rms] = rms_norm(x, norm, eps);
    const Tensor rows = rows_of(normed);
    const int64_t tokens = rows.size(0), hidden = w_gate.size(0);
    // Gate and up where swiglu reads them.
    const Tensor both = output_for_replay(Replay::kOutputNeeded, {2 * tokens, hidden}, x, [&] {
      const Tensor y = at::empty({2 * tokens, hidden}, x.options());
      Tensor gate = y.narrow(0, 0, tokens), up = y.narrow(0, tokens, tokens);
      at::mm_out(gate, rows, w_gate.t());
      at::mm_out(up, rows, w_up.t());
      return y;
    });
    const Tensor inner = swiglu(both);
    ctx->save_for_backward({x, norm, inverse_rms, normed, both, inner, w_gate, w_up, w_down});
    return output_for_replay(Replay::kOutputUnused, x.sizes(), x,
                             [&] { return product(inner, w_down).view(x.sizes()).add_(x); });
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const BelowAutograd below;
    const Tensor &x = saved[0], &norm = saved[1], &inverse_rms = saved[2], &both = saved[4],
                 &inner = saved[5], &w_gate = saved[6], &w_up = saved[7], &w_down = saved[8];
    const Tensor rows = rows_of(saved[3]);
    const int64_t tokens = rows.size(0);
    const Tensor grad = grads[0].contiguous(), d_out = rows_of(grad);

    const Tensor dw_down = at::mm(d_out.t(), inner);
    const Tensor d_both = swiglu_backward(at::mm(d_out, w_down), both);
    const Tensor d_gate = d_both.narrow(0, 0, tokens), d_up = d_both.narrow(0, tokens, tokens);
    const Tensor d_normed = at::mm(d_gate, w_gate).addmm_(d_up, w_up);
    const Tensor dw_gate = at::mm(d_gate.t(), rows), dw_up = at::mm(d_up.t(), rows);
    const auto [dx, d_norm] = through_norm(d_normed, x, norm, inverse_rms, grad);
    return {dx, d_norm, dw_gate, dw_up, dw_down, Tensor()};
  }
};

}  // namespace

Tensor attention_half(const Tensor& x, const AttentionHalf& p) {
  TITAN_CHECK(p.cos.size(-1) == p.head_dim && p.sin.sizes() == p.cos.sizes(),
              "rotary tables of {} angles for heads of {}", p.cos.size(-1), p.head_dim);
  return AttentionHalfFunction::apply(x.contiguous(), p.norm, p.wq, p.wk, p.wv, p.w_out, p);
}

Tensor feed_forward_half(const Tensor& x, const FeedForwardHalf& p) {
  return FeedForwardHalfFunction::apply(x.contiguous(), p.norm, p.w_gate, p.w_up, p.w_down, p.eps);
}

}  // namespace titan::ops::npu
