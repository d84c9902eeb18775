#include "nn/attention.h"

#include "base/error.h"
#include "nn/heads.h"
#include "nn/parallel_linear.h"
#include "ops/attention.h"
#include "ops/deferred.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"

namespace titan::nn {

using at::Tensor;
using ops::Replay;

Attention Attention::with(BlockRunner& runner) const {
  const auto take = [&](const Tensor& t) { return t.defined() ? runner.parameter(t) : Tensor(); };
  return {take(wq), take(wk), take(wv), take(wo), take(q_norm), take(k_norm)};
}

namespace {

// Writes the new keys and values behind the old ones and returns all of them.
std::pair<Tensor, Tensor> append(const CacheView& view, const Tensor& k, const Tensor& v) {
  KvCache& cache = *view.cache;
  const auto layer = static_cast<size_t>(view.layer);
  const int64_t count = k.size(2);
  cache.k[layer].narrow(2, cache.length, count).copy_(k);
  cache.v[layer].narrow(2, cache.length, count).copy_(v);
  return {cache.k[layer].narrow(2, 0, cache.length + count),
          cache.v[layer].narrow(2, 0, cache.length + count)};
}

// Whether one function does it all: one rank's whole rows, nothing but causality masked, weight
// gradients not put off.
bool is_fused(const Attention& p, const AttentionSizes& sizes, const Tensor& x, const Axes& axes,
              const CacheView& view, const ops::Float8Products& float8) {
  return ops::fused_halves_take(float8) && axes.tp.size() == 1 && axes.context.group.size() == 1 &&
         !view.cache && !view.mask.defined() && !view.documents.defined() && !p.q_norm.defined() &&
         !ops::deferred_gradients() &&
         ops::attention_half_serves(x, sizes.num_heads, sizes.num_kv_heads, sizes.head_dim);
}

Tensor attention(const Attention& p, const AttentionSizes& sizes, const Tensor& x,
                 const RotaryTables& rotary, const Axes& axes, const CacheView& view,
                 const ops::Float8Products& float8) {
  const HeadShare share =
      share_heads(sizes.num_heads, sizes.num_kv_heads, axes.tp.size(), axes.tp.rank());
  // A norm reads what it normalises in its backward pass; the rotation and the attention's own
  // inputs need no replay.
  const Replay qk_replay = p.q_norm.defined() ? Replay::kOutputNeeded : Replay::kInputOfKept;
  const auto copies_summed = [&](const Tensor& weight) {
    return sum_copies(weight, sizes.num_kv_heads, share, axes.tp);
  };
  const auto projected = gather_linear(x,
                                       {{p.wq, qk_replay, float8.into},
                                        {copies_summed(p.wk), qk_replay, float8.into},
                                        {copies_summed(p.wv), Replay::kInputOfKept, float8.into}},
                                       axes);
  const auto by_head = [&](const Tensor& y) {
    return y.unflatten(2, {y.size(2) / sizes.head_dim, sizes.head_dim});
  };
  Tensor q = by_head(projected[0]), k = by_head(projected[1]), v = by_head(projected[2]);
  if (p.q_norm.defined()) {
    q = ops::rms_norm(q, p.q_norm, sizes.norm_eps);
    k = ops::rms_norm(k, p.k_norm, sizes.norm_eps);
  }
  q = ops::rope(q, rotary.cos, rotary.sin, sizes.interleaved_rope).transpose(1, 2);
  k = ops::rope(k, rotary.cos, rotary.sin, sizes.interleaved_rope).transpose(1, 2);
  v = v.transpose(1, 2);
  TITAN_CHECK(!view.cache || !view.documents.defined(), "a cache holds one document a row");
  if (view.cache) std::tie(k, v) = append(view, k, v);
  if (const auto map = key_value_of_query(sizes.num_heads, sizes.num_kv_heads, share);
      !map.empty()) {
    const Tensor index = at::tensor(map, at::TensorOptions(at::kLong)).to(k.device());
    k = k.index_select(1, index);
    v = v.index_select(1, index);
  }
  const auto given = [](const Tensor& x) { return x.defined() ? std::optional(x) : std::nullopt; };
  const Tensor seen = axes.context.group.size() > 1 || view.documents.defined()
                          ? context_attention(q, k, v, axes.context, given(view.documents))
                          : ops::attention(q, k, v, given(view.mask));
  const Tensor y = seen.transpose(1, 2).flatten(2);
  return linear_scatter(y, p.wo, axes, Replay::kOutputNeeded, float8.out_of);
}

}  // namespace

Tensor attention_half(const Tensor& norm, const Attention& p, const AttentionSizes& sizes,
                      const Tensor& x, const RotaryTables& rotary, const Axes& axes,
                      const CacheView& view, const ops::Float8Products& float8) {
  if (is_fused(p, sizes, x, axes, view, float8)) {
    return ops::attention_half(x, {.norm = norm,
                                   .wq = p.wq,
                                   .wk = p.wk,
                                   .wv = p.wv,
                                   .w_out = p.wo,
                                   .cos = rotary.cos,
                                   .sin = rotary.sin,
                                   .heads = sizes.num_heads,
                                   .kv_heads = sizes.num_kv_heads,
                                   .head_dim = sizes.head_dim,
                                   .eps = sizes.norm_eps,
                                   .interleaved_rope = sizes.interleaved_rope,
                                   .float8 = float8});
  }
  return x +
         attention(p, sizes, ops::rms_norm(x, norm, sizes.norm_eps), rotary, axes, view, float8);
}

}  // namespace titan::nn
