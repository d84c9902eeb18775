#include "nn/attention.h"

#include "nn/heads.h"
#include "nn/sequence.h"
#include "ops/attention.h"
#include "ops/linear.h"
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

}  // namespace

Tensor attention(const Attention& p, const AttentionSizes& sizes, const Tensor& x,
                 const RotaryTables& rotary, const Axes& axes, const CacheView& view) {
  const HeadShare share =
      share_heads(sizes.num_heads, sizes.num_kv_heads, axes.tp.size(), axes.tp.rank());
  const Tensor all = gather_sequence(x, axes.tp);
  const auto b = all.size(0), t = all.size(1);
  // A norm reads what it normalises in its backward pass; the rotation and the attention's own
  // inputs need no replay.
  const Replay qk_replay = p.q_norm.defined() ? Replay::kOutputNeeded : Replay::kInputOfKept;
  const auto project = [&](const Tensor& weight, int64_t heads, Replay replay) {
    return ops::linear(all, weight, replay).view({b, t, heads, sizes.head_dim});
  };
  Tensor q = project(p.wq, share.query.count, qk_replay);
  Tensor k = project(sum_copies(p.wk, sizes.num_kv_heads, share, axes.tp), share.key_value.count,
                     qk_replay);
  Tensor v = project(sum_copies(p.wv, sizes.num_kv_heads, share, axes.tp), share.key_value.count,
                     Replay::kInputOfKept);
  if (p.q_norm.defined()) {
    q = ops::rms_norm(q, p.q_norm, sizes.norm_eps);
    k = ops::rms_norm(k, p.k_norm, sizes.norm_eps);
  }
  q = ops::rope(q, rotary.cos, rotary.sin, sizes.interleaved_rope).transpose(1, 2);
  k = ops::rope(k, rotary.cos, rotary.sin, sizes.interleaved_rope).transpose(1, 2);
  v = v.transpose(1, 2);
  if (view.cache) std::tie(k, v) = append(view, k, v);
  if (const auto map = key_value_of_query(sizes.num_heads, sizes.num_kv_heads, share);
      !map.empty()) {
    const Tensor index = at::tensor(map, at::TensorOptions(at::kLong)).to(k.device());
    k = k.index_select(1, index);
    v = v.index_select(1, index);
  }
  const auto mask = view.mask.defined() ? std::optional<Tensor>(view.mask) : std::nullopt;
  const Tensor seen = axes.context.group.size() > 1 ? context_attention(q, k, v, axes.context)
                                                    : ops::attention(q, k, v, mask);
  const Tensor y = seen.transpose(1, 2).flatten(2);
  const bool split = axes.tp.size() > 1;
  return scatter_sequence(
      ops::linear(y, p.wo, split ? Replay::kInputOfKept : Replay::kOutputNeeded), axes.tp);
}

}  // namespace titan::nn
