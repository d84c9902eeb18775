#include "ops/npu_ops.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <cmath>
#include <mutex>

#include "base/error.h"
#include "ops/npu_schemas.h"

namespace titan::ops::npu {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

constexpr Schema kSchemas[] = {
    {"npu::npu_rms_norm",
     "npu::npu_rms_norm(Tensor input, Tensor gamma, float epsilon=9.9999999999999995e-07) -> "
     "(Tensor, Tensor)"},
    {"npu::npu_rms_norm_backward",
     "npu::npu_rms_norm_backward(Tensor dy, Tensor input, Tensor gamma, Tensor rstd) -> (Tensor, "
     "Tensor)"},
    {"npu::npu_rotary_mul",
     "npu::npu_rotary_mul(Tensor input, Tensor r1, Tensor r2, str rotary_mode=\"half\", Tensor? "
     "rotate=None) -> Tensor",
     "npu::npu_rotary_mul(Tensor input, Tensor r1, Tensor r2, str rotary_mode=\"half\") -> Tensor"},
    {"npu::npu_rotary_mul_backward",
     "npu::npu_rotary_mul_backward(Tensor grad, Tensor input, Tensor r1, Tensor r2, str "
     "rotary_mode=\"half\") -> (Tensor, Tensor, Tensor)"},
    {"npu::npu_swiglu", "npu::npu_swiglu(Tensor input, int dim=-1) -> Tensor"},
    {"npu::npu_swiglu_backward",
     "npu::npu_swiglu_backward(Tensor grad_output, Tensor input, int dim=-1) -> Tensor"},
    {"npu::npu_cross_entropy_loss",
     "npu::npu_cross_entropy_loss(Tensor input, Tensor target, Tensor? weight=None, str "
     "reduction=\"mean\", int ignore_index=-100, float label_smoothing=0., float "
     "lse_square_scale_for_zloss=0., bool return_zloss=False) -> (Tensor, Tensor, Tensor, Tensor)"},
    {"npu::npu_cross_entropy_loss_backward",
     "npu::npu_cross_entropy_loss_backward(Tensor grad_loss, Tensor log_prob, Tensor target, "
     "Tensor? weight=None, Tensor? grad_zloss=None, Tensor? lse_for_zloss=None, str "
     "reduction=\"mean\", int ignore_index=-100, float label_smoothing=0., float "
     "lse_square_scale_for_zloss=0.) -> Tensor"},
    {"npu::npu_fusion_attention_v2",
     "npu::npu_fusion_attention_v2(Tensor query, Tensor key, Tensor value, int head_num, str "
     "input_layout, *, Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, "
     "Tensor? query_rope=None, Tensor? key_rope=None, float scale=1., float keep_prob=1., int "
     "pre_tokens=2147483647, int next_tokens=2147483647, int inner_precise=0, int[]? "
     "prefix=None, int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None, int "
     "sparse_mode=0, bool gen_mask_parallel=True, bool sync=False, int pse_type=1, int[]? "
     "q_start_idx=None, int[]? kv_start_idx=None, str softmax_layout=\"\", Tensor? sink=None, "
     "Tensor? dropout_mask=None, int seed=0, int offset=0) -> (Tensor, Tensor, Tensor, Tensor,"
     " int, int, int)",
     "npu::npu_fusion_attention_v2(Tensor query, Tensor key, Tensor value, int head_num, str "
     "input_layout, *, Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, "
     "Tensor? query_rope=None, Tensor? key_rope=None, float scale=1., float keep_prob=1., int "
     "pre_tokens=2147483647, int next_tokens=2147483647, int inner_precise=0, int[]? "
     "prefix=None, int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None, int "
     "sparse_mode=0, bool gen_mask_parallel=True, bool sync=False, int pse_type=1, int[]? "
     "q_start_idx=None, int[]? kv_start_idx=None, str softmax_layout=\"\", Tensor? sink=None) -> "
     "(Tensor, Tensor, Tensor, Tensor, int, int, int)"},
    {"npu::npu_fusion_attention_grad_v2",
     "npu::npu_fusion_attention_grad_v2(Tensor query, Tensor key, Tensor value, Tensor dy, int"
     " head_num, str input_layout, *, Tensor? pse=None, Tensor? padding_mask=None, Tensor? "
     "atten_mask=None, Tensor? softmax_max=None, Tensor? softmax_sum=None, Tensor? "
     "softmax_in=None, Tensor? attention_in=None, Tensor? query_rope=None, Tensor? "
     "key_rope=None, float scale_value=1., float keep_prob=1., int pre_tokens=2147483647, int "
     "next_tokens=2147483647, int inner_precise=0, int seed=0, int offset=0, int numels=0, "
     "int[]? prefix=None, int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None, int "
     "sparse_mode=0, bool gen_mask_parallel=True, bool sync=False, int pse_type=1, int[]? "
     "q_start_idx=None, int[]? kv_start_idx=None, str softmax_layout=\"\", Tensor? sink=None) "
     "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"},
    {"npu::npu_grouped_matmul",
     "npu::npu_grouped_matmul(Tensor[] x, Tensor[] weight, *, Tensor[]? bias=None, Tensor[]? "
     "scale=None, Tensor[]? offset=None, Tensor[]? antiquant_scale=None, Tensor[]? "
     "antiquant_offset=None, Tensor[]? per_token_scale=None, Tensor? group_list=None, Tensor[]? "
     "activation_input=None, Tensor[]? activation_quant_scale=None, Tensor[]? "
     "activation_quant_offset=None, int? split_item=0, int? group_type=None, int? "
     "group_list_type=0, int? act_type=0, int[]? tuning_config=None, int? output_dtype=None, int? "
     "x_dtype=None, int? weight_dtype=None, int? scale_dtype=None, int? "
     "per_token_scale_dtype=None) -> Tensor[]",
     "npu::npu_grouped_matmul(Tensor[] x, Tensor[] weight, *, Tensor[]? bias=None, Tensor[]? "
     "scale=None, Tensor[]? offset=None, Tensor[]? antiquant_scale=None, Tensor[]? "
     "antiquant_offset=None, Tensor[]? per_token_scale=None, Tensor? group_list=None, Tensor[]? "
     "activation_input=None, Tensor[]? activation_quant_scale=None, Tensor[]? "
     "activation_quant_offset=None, int? split_item=0, int? group_type=None, int? "
     "group_list_type=0, int? act_type=0, int[]? tuning_config=None, ScalarType? "
     "output_dtype=None) -> Tensor[]"},
    {"npu::npu_moe_token_permute",
     "npu::npu_moe_token_permute(Tensor tokens, Tensor indices, int? num_out_tokens=None, bool "
     "padded_mode=False) -> (Tensor, Tensor)"},
    {"npu::npu_moe_token_unpermute",
     "npu::npu_moe_token_unpermute(Tensor permuted_tokens, Tensor sorted_indices, Tensor? "
     "probs=None, bool padded_mode=False, int[]? restore_shape=None) -> Tensor"},
    {"npu::npu_moe_gating_top_k",
     "npu::npu_moe_gating_top_k(Tensor x, int k, *, Tensor? bias=None, int k_group=1, int "
     "group_count=1, int group_select_mode=0, int renorm=0, int norm_type=0, bool out_flag=False, "
     "float routed_scaling_factor=1., float eps=9.9999999999999995e-21) -> (Tensor, Tensor, "
     "Tensor)",
     "npu::npu_moe_gating_top_k(Tensor x, int k, *, Tensor? bias=None, Tensor? input_ids=None, "
     "Tensor? tid2eid=None, int k_group=1, int group_count=1, int group_select_mode=0, int "
     "renorm=0, int norm_type=0, bool out_flag=False, float routed_scaling_factor=1., float "
     "eps=9.9999999999999995e-21) -> (Tensor, Tensor, Tensor)"},
};

constexpr int64_t kAll = 2147483647;  // tokens before and after: no window
constexpr int64_t kNoBias = 1;        // of positions: the default kind, and none is given
constexpr int64_t kNothingIgnored = -100;
constexpr int64_t kNoMask = 0, kWholeMask = 1, kCausalMask = 2;

// The mask that sparse mode 2 wants whatever the length: [2048, 2048] bool, true above the
// diagonal. A constant per device, made at its first use and never freed: CANN may be closed before
// static objects are destroyed.
const Tensor& causal_mask(at::Device device) {
  struct Slot {
    std::once_flag once;
    Tensor mask;
  };
  static auto* const slots = new std::array<Slot, 64>;
  Slot& slot = slots->at(static_cast<size_t>(device.index()));
  std::call_once(slot.once, [&] {
    constexpr int64_t kSize = 2048;
    slot.mask = at::ones({kSize, kSize}, at::TensorOptions(at::kBool)).triu(1).to(device);
  });
  return slot.mask;
}

// How a tensor [B, heads, T, D] is handed over: as it lies where that is [B, T, heads, D] in
// memory.
struct Layout {
  const char* name;
  bool tokens_first;

  Tensor to(const Tensor& x) const { return tokens_first ? x.transpose(1, 2) : x.contiguous(); }
  Tensor from(const Tensor& x) const { return tokens_first ? x.transpose(1, 2) : x; }
};

Layout layout_of(std::initializer_list<Tensor> tensors) {
  for (const auto& x : tensors) {
    if (!x.transpose(1, 2).is_contiguous()) return {"BNSD", false};
  }
  return {"BSND", true};
}

// A rotary table [T, D] or [B, T, D] beside [B, T, heads, D].
Tensor over_heads(const Tensor& table) {
  if (table.dim() == 4) return table;
  return table.dim() == 2 ? table.unsqueeze(0).unsqueeze(2) : table.unsqueeze(2);
}

// How one call of attention sees its tensors.
struct AttentionCall {
  const char* layout;
  int64_t heads;
  double scale;
  int64_t mode;
  OptionalTensor mask;

  AttentionCall(const char* layout, int64_t heads, const Tensor& q, bool causal,
                const OptionalTensor& hidden = std::nullopt)
      : layout(layout),
        heads(heads),
        scale(1 / std::sqrt(static_cast<double>(q.size(3)))),
        mode(causal   ? kCausalMask
             : hidden ? kWholeMask
                      : kNoMask),
        mask(hidden) {
    if (causal) mask = causal_mask(q.device());
  }

  Attention forward(const Tensor& q, const Tensor& k, const Tensor& v) const;
  AttentionGradients backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                              const Attention& done) const;
};

Attention AttentionCall::forward(const Tensor& q, const Tensor& k, const Tensor& v) const {
  // The third version of this operator refuses an Ascend 950.
  static const Grown<std::tuple<Tensor, Tensor, Tensor, Tensor, int64_t, int64_t, int64_t>(
                         const Tensor&, const Tensor&, const Tensor&, int64_t, c10::string_view,
                         const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                         const OptionalTensor&, const OptionalTensor&, double, double, int64_t,
                         int64_t, int64_t, at::OptionalIntArrayRef, at::OptionalIntArrayRef,
                         at::OptionalIntArrayRef, int64_t, bool, bool, int64_t,
                         at::OptionalIntArrayRef, at::OptionalIntArrayRef, c10::string_view,
                         const OptionalTensor&),
                     const OptionalTensor&, int64_t, int64_t>
      op("npu::npu_fusion_attention_v2", "dropout_mask");
  const auto result =
      op.call(q, k, v, heads, layout, std::nullopt, std::nullopt, mask, std::nullopt, std::nullopt,
              scale, 1, kAll, kAll, 0, std::nullopt, std::nullopt, std::nullopt, mode, true, false,
              kNoBias, std::nullopt, std::nullopt, "", std::nullopt, std::nullopt, 0, 0);
  return {std::get<0>(result), std::get<1>(result), std::get<2>(result)};
}

AttentionGradients AttentionCall::backward(const Tensor& grad, const Tensor& q, const Tensor& k,
                                           const Tensor& v, const Attention& done) const {
  static const auto op = find<std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>(
      const Tensor&, const Tensor&, const Tensor&, const Tensor&, int64_t, c10::string_view,
      const OptionalTensor&, const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
      const OptionalTensor&, const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
      const OptionalTensor&, double, double, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
      at::OptionalIntArrayRef, at::OptionalIntArrayRef, at::OptionalIntArrayRef, int64_t, bool,
      bool, int64_t, at::OptionalIntArrayRef, at::OptionalIntArrayRef, c10::string_view,
      const OptionalTensor&)>("npu::npu_fusion_attention_grad_v2");
  const auto result =
      op.call(q, k, v, grad, heads, layout, std::nullopt, std::nullopt, mask, done.softmax_max,
              done.softmax_sum, std::nullopt, done.out, std::nullopt, std::nullopt, scale, 1, kAll,
              kAll, 0, 0, 0, 0, std::nullopt, std::nullopt, std::nullopt, mode, true, false,
              kNoBias, std::nullopt, std::nullopt, "", std::nullopt);
  return {std::get<0>(result), std::get<1>(result), std::get<2>(result)};
}

}  // namespace

std::span<const Schema> npu_schemas() { return kSchemas; }

RmsNorm rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  static const auto op =
      find<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, double)>("npu::npu_rms_norm");
  auto [out, inverse_rms] = op.call(x, weight, eps);
  return {std::move(out), std::move(inverse_rms)};
}

std::pair<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& x,
                                            const Tensor& weight, const Tensor& inverse_rms) {
  static const auto op =
      find<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const Tensor&)>(
          "npu::npu_rms_norm_backward");
  auto [dx, dw] = op.call(grad, x, weight, inverse_rms);
  return {std::move(dx), std::move(dw)};
}

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  static const Grown<Tensor(const Tensor&, const Tensor&, const Tensor&, c10::string_view),
                     const OptionalTensor&>
      op("npu::npu_rotary_mul", "rotate");
  return op.call(x, over_heads(cos), over_heads(sin), interleaved ? "interleave" : "half",
                 std::nullopt);
}

Tensor rotate_back(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  static const auto op = find<std::tuple<Tensor, Tensor, Tensor>(
      const Tensor&, const Tensor&, const Tensor&, const Tensor&, c10::string_view)>(
      "npu::npu_rotary_mul_backward");
  // What was rotated is read for the gradients of the tables only, and those need none.
  return std::get<0>(
      op.call(x, x, over_heads(cos), over_heads(sin), interleaved ? "interleave" : "half"));
}

Tensor swiglu(const Tensor& gate_and_up) {
  static const auto op = find<Tensor(const Tensor&, int64_t)>("npu::npu_swiglu");
  return op.call(gate_and_up, 0);
}

Tensor swiglu_backward(const Tensor& grad, const Tensor& gate_and_up) {
  static const auto op =
      find<Tensor(const Tensor&, const Tensor&, int64_t)>("npu::npu_swiglu_backward");
  return op.call(grad, gate_and_up, 0);
}

CrossEntropy cross_entropy(const Tensor& logits, const Tensor& labels) {
  static const auto op = find<std::tuple<Tensor, Tensor, Tensor, Tensor>(
      const Tensor&, const Tensor&, const OptionalTensor&, c10::string_view, int64_t, double,
      double, bool)>("npu::npu_cross_entropy_loss");
  auto result = op.call(logits, labels, std::nullopt, "none", kNothingIgnored, 0, 0, false);
  return {std::get<0>(result), std::get<1>(result)};
}

Tensor cross_entropy_backward(const Tensor& grad, const Tensor& log_probabilities,
                              const Tensor& labels) {
  static const auto op =
      find<Tensor(const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&,
                  const OptionalTensor&, const OptionalTensor&, c10::string_view, int64_t, double,
                  double)>("npu::npu_cross_entropy_loss_backward");
  return op.call(grad, log_probabilities, labels, std::nullopt, std::nullopt, std::nullopt, "none",
                 kNothingIgnored, 0, 0);
}

Attention attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                    const OptionalTensor& hidden) {
  TITAN_CHECK(!causal || q.size(2) == k.size(2), "causal attention of {} queries on {} keys",
              q.size(2), k.size(2));
  const Layout layout = layout_of({q, k, v});
  Attention done = AttentionCall(layout.name, q.size(1), q, causal, hidden)
                       .forward(layout.to(q), layout.to(k), layout.to(v));
  done.out = layout.from(done.out);
  return done;
}

AttentionGradients attention_backward(const Tensor& grad, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const Tensor& out, const Tensor& logsumexp,
                                      bool causal) {
  const Layout layout = layout_of({grad, q, k, v, out});
  // exp(score - maximum) / sum is the share of a key: with the logsumexp as maximum the sum is 1.
  const Tensor maximum =
      logsumexp.to(at::kFloat).unsqueeze(-1).expand({-1, -1, -1, 8}).contiguous();
  const auto d = AttentionCall(layout.name, q.size(1), q, causal)
                     .backward(layout.to(grad), layout.to(q), layout.to(k), layout.to(v),
                               {layout.to(out), maximum, at::ones_like(maximum)});
  return {layout.from(d.q), layout.from(d.k), layout.from(d.v)};
}

Attention attention_by_token(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  return AttentionCall("BSND", q.size(2), q, causal).forward(q, k, v);
}

AttentionGradients attention_by_token_backward(const Tensor& grad, const Tensor& q, const Tensor& k,
                                               const Tensor& v, const Attention& done,
                                               bool causal) {
  return AttentionCall("BSND", q.size(2), q, causal).backward(grad, q, k, v, done);
}

}  // namespace titan::ops::npu
