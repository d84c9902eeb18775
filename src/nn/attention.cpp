#include "nn/attention.h"

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
                 const RotaryTables& rotary, const CacheView& view) {
  const auto b = x.size(0), t = x.size(1);
  // A norm reads what it normalises in its backward pass; the rotation and the attention's own
  // inputs need no replay.
  const Replay qk_replay = p.q_norm.defined() ? Replay::kOutputNeeded : Replay::kOutputOfAttention;
  Tensor q = ops::linear(x, p.wq, qk_replay).view({b, t, sizes.num_heads, sizes.head_dim});
  Tensor k = ops::linear(x, p.wk, qk_replay).view({b, t, sizes.num_kv_heads, sizes.head_dim});
  Tensor v = ops::linear(x, p.wv, Replay::kOutputOfAttention)
                 .view({b, t, sizes.num_kv_heads, sizes.head_dim});
  if (p.q_norm.defined()) {
    q = ops::rms_norm(q, p.q_norm, sizes.norm_eps);
    k = ops::rms_norm(k, p.k_norm, sizes.norm_eps);
  }
  q = ops::rope(q, rotary.cos, rotary.sin, sizes.interleaved_rope).transpose(1, 2);
  k = ops::rope(k, rotary.cos, rotary.sin, sizes.interleaved_rope).transpose(1, 2);
  v = v.transpose(1, 2);
  if (view.cache) std::tie(k, v) = append(view, k, v);
  const auto mask = view.mask.defined() ? std::optional<Tensor>(view.mask) : std::nullopt;
  const Tensor y = ops::attention(q, k, v, mask).transpose(1, 2).flatten(2);
  return ops::linear(y, p.wo);
}

}  // namespace titan::nn
