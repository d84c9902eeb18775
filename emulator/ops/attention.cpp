// Fused attention of the 910B family (versions 1, 2; packed sequences: VarLen / Unpadding) and of
// 950 (ScoreV4). Shapes: B batch, N heads, S query length, K key length, D head size. Everything is
// computed as [B, N, S, D] in float32. The statistics (max and sum of the exponentials of each row)
// have 8 equal copies in their last dim, as the adapter allocates them. Refused: padding masks,
// dropout and prefixes of packed sequences, gradients of a position bias, rope and sink inputs.
#include <ATen/ATen.h>

#include <limits>

#include "ops/operator.h"

using namespace cannemu::ops;

namespace {

struct Attention {
  Tensor bias, mask;  // added to the logits; true where a key is hidden
  double scale = 1;
  int64_t before = 0, after = 0;  // reach of a band (mask mode 4)
  int64_t heads = 1;
  Text layout;
  int64_t mask_mode = 0;
  Ints prefix;     // of each batch: keys that every query sees (mask modes 5 and 6)
  Tensor dropout;  // one bit for each weight, [B, N, S, K], the lowest bit of a byte first
  double keep = 1;
};

void refuse(const Tensor& padding) {
  TORCH_CHECK(!present(padding), "attention with a padding mask is not emulated");
}

bool packed(const Attention& attention) { return attention.layout == "TND"; }

Tensor to_BNSD(const Tensor& x, const Text& layout, int64_t heads) {
  const Tensor f = x.to(at::kFloat);
  if (layout == "BNSD") return f;
  if (layout == "BSND") return f.transpose(1, 2);
  if (layout == "BSH") return f.reshape({f.size(0), f.size(1), heads, -1}).transpose(1, 2);
  if (layout == "SBH") return f.reshape({f.size(0), f.size(1), heads, -1}).permute({1, 2, 0, 3});
  TORCH_CHECK(false, "the layout ", layout, " is not emulated");
}

Tensor from_BNSD(const Tensor& x, const Text& layout) {
  if (layout == "BNSD") return x;
  if (layout == "BSND") return x.transpose(1, 2);
  if (layout == "BSH") return x.transpose(1, 2).flatten(2);
  return x.permute({2, 0, 1, 3}).flatten(2);
}

int64_t key_heads(const Tensor& key, const Tensor& query, const Attention& attention) {
  if (attention.layout == "BNSD" || packed(attention)) return key.size(1);
  if (attention.layout == "BSND") return key.size(2);
  return key.size(2) / (query.size(2) / attention.heads);
}

// Query heads share key heads in groups that lie together.
Tensor for_each_query_head(const Tensor& x_BNSD, int64_t heads) {
  return x_BNSD.size(1) == heads ? x_BNSD
                                 : at::repeat_interleave(x_BNSD, heads / x_BNSD.size(1), 1);
}
Tensor sum_over_group(const Tensor& grad_BNSD, int64_t heads) {
  if (grad_BNSD.size(1) == heads) return grad_BNSD;
  return grad_BNSD.unflatten(1, {heads, grad_BNSD.size(1) / heads}).sum(2);
}

// True where the key is further than `before` behind or `after` ahead of the query, the query at
// row i standing at i + shift.
Tensor outside_band(int64_t rows, int64_t columns, int64_t before, int64_t after, int64_t shift) {
  const Tensor row = at::arange(rows).unsqueeze(1) + shift,
               column = at::arange(columns).unsqueeze(0);
  return at::logical_or(column.gt(row + after), column.lt(row - before));
}

// Causal from the lower right, and before it the first keys of each batch, as many as its prefix.
Tensor outside_prefix(const Attention& attention, int64_t rows, int64_t columns) {
  TORCH_CHECK(!packed(attention), "packed attention with a prefix mask is not emulated");
  const Tensor causal = outside_band(rows, columns, int64_t{1} << 40, 0, columns - rows);
  std::vector<Tensor> hidden;
  for (const int64_t prefix : attention.prefix) {
    hidden.push_back(at::logical_and(causal, at::arange(columns).ge(prefix)));
  }
  return at::stack(hidden).unsqueeze(1);
}

// Mode 0 and 1: the mask as given. 2: causal from the upper left corner, 3: from the lower right,
// 4: a band from the lower right; these come with a compressed mask of 2048 x 2048 whose content is
// implied. 5: a prefix, with the whole mask; 6: the same with one of 3072 x 2048.
Tensor hidden_keys(const Attention& attention, int64_t rows, int64_t columns) {
  constexpr int64_t kCompressed = 2048, kEverything = int64_t{1} << 40;
  const int64_t mode = attention.mask_mode;
  TORCH_CHECK(mode >= 0 && mode <= 6, "mask mode ", mode, " is not emulated");
  TORCH_CHECK(attention.prefix.empty() == (mode < 5),
              "mask modes 5 and 6, and only they, take a prefix");
  if (mode >= 5) {
    const Tensor hidden = outside_prefix(attention, rows, columns);
    TORCH_CHECK(
        attention.mask.defined() &&
            (mode == 5 ? hidden.ne(attention.mask.to(at::kBool)).any().item<bool>() == false
                       : attention.mask.size(-1) == kCompressed && attention.mask.size(-2) == 3072),
        "mask mode 5 takes the whole mask that the prefix means, mode 6 the compressed one of "
        "3072 x 2048");
    return hidden;
  }
  if (mode <= 1) return present(attention.mask) ? attention.mask.to(at::kBool) : Tensor();
  TORCH_CHECK(attention.mask.defined() && attention.mask.size(-1) == kCompressed &&
                  attention.mask.size(-2) == kCompressed,
              "mask modes 2 to 4 take the compressed mask of 2048 x 2048");
  if (mode == 2) return outside_band(rows, columns, kEverything, 0, 0);
  if (mode == 3) return outside_band(rows, columns, kEverything, 0, columns - rows);
  return outside_band(rows, columns, attention.before, attention.after, columns - rows);
}

Tensor logits(const Attention& attention, const Tensor& q_BNSD, const Tensor& k_BNKD) {
  Tensor s_BNSK = at::matmul(q_BNSD, k_BNKD.transpose(-1, -2)) * attention.scale;
  if (present(attention.bias)) s_BNSK = s_BNSK + attention.bias.to(at::kFloat);
  const Tensor hidden = hidden_keys(attention, s_BNSK.size(-2), s_BNSK.size(-1));
  return hidden.defined() ? s_BNSK.masked_fill(hidden, -std::numeric_limits<double>::infinity())
                          : s_BNSK;
}

// What dropout multiplies each weight with; undefined without dropout.
Tensor kept(const Attention& attention, const Tensor& weights_BNSK) {
  if (attention.keep == 1.0) return {};
  TORCH_CHECK(!packed(attention), "packed attention with dropout is not emulated");
  TORCH_CHECK(present(attention.dropout) && attention.dropout.numel() * 8 >= weights_BNSK.numel(),
              "dropout needs a mask with one bit for each weight");
  const Tensor bits = at::bitwise_and(attention.dropout.reshape({-1, 1}).to(at::kLong),
                                      at::pow(2, at::arange(8, at::kLong)))
                          .ne(0)
                          .reshape(-1);
  return bits.slice(0, 0, weights_BNSK.numel()).reshape(weights_BNSK.sizes()).to(at::kFloat) /
         attention.keep;
}

struct Forward {
  Tensor out_BNSD, max_BNS1, sum_BNS1;
};

constexpr double kLeast = -3e38, kTiny = 1e-30;  // a row that sees no key gives 0

Forward forward(const Attention& attention, const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor s = logits(attention, q, for_each_query_head(k, q.size(1)));
  const Tensor max = s.amax(-1, true).clamp_min(kLeast);
  const Tensor e = at::exp(s - max);
  const Tensor sum = e.sum(-1, true);
  Tensor p = e / sum.clamp_min(kTiny);
  if (const Tensor factor = kept(attention, p); factor.defined()) p = p * factor;
  return {at::matmul(p, for_each_query_head(v, q.size(1))), max, sum};
}

struct Backward {
  Tensor q, k, v;
};

Backward backward(const Attention& attention, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& grad, const Tensor& out, const Tensor& max, const Tensor& sum) {
  const Tensor k_all = for_each_query_head(k, q.size(1)), v_all = for_each_query_head(v, q.size(1));
  const Tensor p = at::exp(logits(attention, q, k_all) - max) / sum.clamp_min(kTiny);
  Tensor p_grad = at::matmul(grad, v_all.transpose(-1, -2)), p_kept = p;
  if (const Tensor factor = kept(attention, p); factor.defined()) {
    p_grad = p_grad * factor;
    p_kept = p * factor;
  }
  const Tensor s_grad = p * (p_grad - (grad * out).sum(-1, true));
  return {at::matmul(s_grad, k_all) * attention.scale,
          sum_over_group(at::matmul(s_grad.transpose(-1, -2), q) * attention.scale, k.size(1)),
          sum_over_group(at::matmul(p_kept.transpose(-1, -2), grad), v.size(1))};
}

// Packed sequences [T, N, D]: `ends` are the cumulated lengths.
template <class Function>
void for_each_sequence(const Ints& q_ends, const Ints& k_ends, Function function) {
  TORCH_CHECK(q_ends.size() == k_ends.size(), "as many query as key sequences");
  int64_t q = 0, k = 0;
  for (size_t at = 0; at < q_ends.size(); q = q_ends[at], k = k_ends[at], ++at) {
    if (q_ends[at] > q) function(q, q_ends[at], k, k_ends[at]);
  }
}
Tensor sequence(const Tensor& x_TND, int64_t begin, int64_t end) {
  return x_TND.slice(0, begin, end).to(at::kFloat).transpose(0, 1).unsqueeze(0);
}
void put_sequence(const Tensor& out_TND, int64_t begin, int64_t end, const Tensor& x_BNSD) {
  const Tensor part = out_TND.slice(0, begin, end);
  part.copy_(x_BNSD.squeeze(0).transpose(0, 1).expand_as(part));
}

void run_forward(const Attention& attention, const Ints& q_ends, const Ints& k_ends,
                 const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& max,
                 const Tensor& sum, const Tensor& out) {
  if (!packed(attention)) {
    const int64_t heads = key_heads(k, q, attention);
    const Forward result =
        forward(attention, to_BNSD(q, attention.layout, attention.heads),
                to_BNSD(k, attention.layout, heads), to_BNSD(v, attention.layout, heads));
    put(max, result.max_BNS1.expand(max.sizes()));
    put(sum, result.sum_BNS1.expand(sum.sizes()));
    return put(out, from_BNSD(result.out_BNSD, attention.layout));
  }
  TORCH_CHECK(!present(attention.bias), "packed attention with a position bias is not emulated");
  for_each_sequence(q_ends, k_ends, [&](int64_t q0, int64_t q1, int64_t k0, int64_t k1) {
    const Forward result =
        forward(attention, sequence(q, q0, q1), sequence(k, k0, k1), sequence(v, k0, k1));
    put_sequence(max, q0, q1, result.max_BNS1);
    put_sequence(sum, q0, q1, result.sum_BNS1);
    put_sequence(out, q0, q1, result.out_BNSD);
  });
}

struct Saved {
  Tensor grad, max, sum, out;
};

void run_backward(const Attention& attention, const Ints& q_ends, const Ints& k_ends,
                  const Tensor& q, const Tensor& k, const Tensor& v, const Saved& saved,
                  const Tensor& grad_q, const Tensor& grad_k, const Tensor& grad_v,
                  const Tensor& grad_bias) {
  TORCH_CHECK(!present(grad_bias), "the gradient of a position bias is not emulated");
  if (!packed(attention)) {
    const Text& layout = attention.layout;
    const int64_t heads = attention.heads, shared = key_heads(k, q, attention);
    const Backward result = backward(
        attention, to_BNSD(q, layout, heads), to_BNSD(k, layout, shared),
        to_BNSD(v, layout, shared), to_BNSD(saved.grad, layout, heads),
        to_BNSD(saved.out, layout, heads), saved.max.slice(-1, 0, 1), saved.sum.slice(-1, 0, 1));
    put(grad_q, from_BNSD(result.q, layout));
    put(grad_k, from_BNSD(result.k, layout));
    return put(grad_v, from_BNSD(result.v, layout));
  }
  for_each_sequence(q_ends, k_ends, [&](int64_t q0, int64_t q1, int64_t k0, int64_t k1) {
    const Backward result = backward(
        attention, sequence(q, q0, q1), sequence(k, k0, k1), sequence(v, k0, k1),
        sequence(saved.grad, q0, q1), sequence(saved.out, q0, q1),
        sequence(saved.max, q0, q1).slice(-1, 0, 1), sequence(saved.sum, q0, q1).slice(-1, 0, 1));
    put_sequence(grad_q, q0, q1, result.q);
    put_sequence(grad_k, k0, k1, result.k);
    put_sequence(grad_v, k0, k1, result.v);
  });
}

}  // namespace

ACLNN(FlashAttentionScore, Tensor q, Tensor k, Tensor v, Tensor bias, Tensor dropout,
      Tensor padding, Tensor mask, Ints prefix, double scale, double keep, int64_t before,
      int64_t after, int64_t heads, Text layout, int64_t, int64_t mode, Tensor max, Tensor sum,
      Tensor, Tensor out) {
  refuse(padding);
  run_forward({bias, mask, scale, before, after, heads, layout, mode, prefix, dropout, keep}, {},
              {}, q, k, v, max, sum, out);
}

ACLNN(FlashAttentionScoreGrad, Tensor q, Tensor k, Tensor v, Tensor grad, Tensor bias,
      Tensor dropout, Tensor padding, Tensor mask, Tensor max, Tensor sum, Tensor, Tensor out,
      Ints prefix, double scale, double keep, int64_t before, int64_t after, int64_t heads,
      Text layout, int64_t, int64_t mode, Tensor grad_q, Tensor grad_k, Tensor grad_v,
      Tensor grad_bias) {
  refuse(padding);
  run_backward({bias, mask, scale, before, after, heads, layout, mode, prefix, dropout, keep}, {},
               {}, q, k, v, {grad, max, sum, out}, grad_q, grad_k, grad_v, grad_bias);
}

ACLNN(FlashAttentionScoreV2, Tensor q, Tensor k, Tensor v, Tensor bias, Tensor dropout,
      Tensor padding, Tensor mask, Ints prefix, Ints, Ints, double scale, double keep,
      int64_t before, int64_t after, int64_t heads, Text layout, int64_t, int64_t mode, int64_t,
      Tensor max, Tensor sum, Tensor, Tensor out) {
  refuse(padding);
  run_forward({bias, mask, scale, before, after, heads, layout, mode, prefix, dropout, keep}, {},
              {}, q, k, v, max, sum, out);
}

ACLNN(FlashAttentionScoreGradV2, Tensor q, Tensor k, Tensor v, Tensor grad, Tensor bias,
      Tensor dropout, Tensor padding, Tensor mask, Tensor max, Tensor sum, Tensor, Tensor out,
      Ints prefix, Ints, Ints, double scale, double keep, int64_t before, int64_t after,
      int64_t heads, Text layout, int64_t, int64_t mode, int64_t, Tensor grad_q, Tensor grad_k,
      Tensor grad_v, Tensor grad_bias) {
  refuse(padding);
  run_backward({bias, mask, scale, before, after, heads, layout, mode, prefix, dropout, keep}, {},
               {}, q, k, v, {grad, max, sum, out}, grad_q, grad_k, grad_v, grad_bias);
}

ACLNN(FlashAttentionVarLenScore, Tensor q, Tensor k, Tensor v, Tensor bias, Tensor dropout,
      Tensor padding, Tensor mask, Ints prefix, Ints q_ends, Ints k_ends, double scale, double keep,
      int64_t before, int64_t after, int64_t heads, Text layout, int64_t, int64_t mode, Tensor max,
      Tensor sum, Tensor, Tensor out) {
  refuse(padding);
  run_forward({bias, mask, scale, before, after, heads, layout, mode, prefix, dropout, keep},
              q_ends, k_ends, q, k, v, max, sum, out);
}

ACLNN(FlashAttentionUnpaddingScoreGrad, Tensor q, Tensor k, Tensor v, Tensor grad, Tensor bias,
      Tensor dropout, Tensor padding, Tensor mask, Tensor max, Tensor sum, Tensor, Tensor out,
      Ints prefix, Ints q_ends, Ints k_ends, double scale, double keep, int64_t before,
      int64_t after, int64_t heads, Text layout, int64_t, int64_t mode, Tensor grad_q,
      Tensor grad_k, Tensor grad_v, Tensor grad_bias) {
  refuse(padding);
  run_backward({bias, mask, scale, before, after, heads, layout, mode, prefix, dropout, keep},
               q_ends, k_ends, q, k, v, {grad, max, sum, out}, grad_q, grad_k, grad_v, grad_bias);
}

ACLNN(FlashAttentionVarLenScoreV2, Tensor q, Tensor k, Tensor v, Tensor bias, Tensor dropout,
      Tensor padding, Tensor mask, Ints prefix, Ints q_ends, Ints k_ends, Ints, Ints, double scale,
      double keep, int64_t before, int64_t after, int64_t heads, Text layout, int64_t, int64_t mode,
      int64_t, Tensor max, Tensor sum, Tensor, Tensor out) {
  refuse(padding);
  run_forward({bias, mask, scale, before, after, heads, layout, mode, prefix, dropout, keep},
              q_ends, k_ends, q, k, v, max, sum, out);
}

ACLNN(FlashAttentionVarLenScoreV4, Tensor q, Tensor k, Tensor v, Tensor bias, Tensor dropout,
      Tensor padding, Tensor mask, Ints prefix, Ints q_ends, Ints k_ends, double scale, double keep,
      int64_t before, int64_t after, int64_t heads, Text layout, int64_t, int64_t mode, Text,
      Tensor max, Tensor sum, Tensor, Tensor out) {
  refuse(padding);
  run_forward({bias, mask, scale, before, after, heads, layout, mode, prefix, dropout, keep},
              q_ends, k_ends, q, k, v, max, sum, out);
}

ACLNN(FlashAttentionUnpaddingScoreGradV4, Tensor q, Tensor k, Tensor v, Tensor grad, Tensor bias,
      Tensor dropout, Tensor padding, Tensor mask, Tensor max, Tensor sum, Tensor, Tensor out,
      Ints prefix, Ints q_ends, Ints k_ends, double scale, double keep, int64_t before,
      int64_t after, int64_t heads, Text layout, int64_t, int64_t mode, Tensor grad_q,
      Tensor grad_k, Tensor grad_v, Tensor grad_bias, Text) {
  refuse(padding);
  run_backward({bias, mask, scale, before, after, heads, layout, mode, prefix, dropout, keep},
               q_ends, k_ends, q, k, v, {grad, max, sum, out}, grad_q, grad_k, grad_v, grad_bias);
}

// 950: one operator for dense and packed sequences; rope, sink and the scales of float8 are
// refused.
ACLNN(FlashAttentionScoreV4, Tensor q, Tensor k, Tensor v, Tensor bias, Tensor dropout,
      Tensor padding, Tensor mask, Tensor q_rope, Tensor k_rope, Tensor q_scale, Tensor k_scale,
      Tensor v_scale, Tensor sink, Ints prefix, Ints q_ends, Ints k_ends, int64_t, int64_t,
      double scale, double keep, int64_t before, int64_t after, int64_t heads, Text layout, int64_t,
      int64_t mode, int64_t, int64_t, Text, int64_t, int64_t, Tensor max, Tensor sum, Tensor,
      Tensor out) {
  refuse(padding);
  TORCH_CHECK(!present(q_rope) && !present(k_rope) && !present(sink) && !present(q_scale) &&
                  !present(k_scale) && !present(v_scale),
              "attention with rope, sink or float8 scales is not emulated");
  run_forward({bias, mask, scale, before, after, heads, layout, mode, prefix, dropout, keep},
              q_ends, k_ends, q, k, v, max, sum, out);
}

ACLNN(FlashAttentionScoreGradV4, Tensor q, Tensor k, Tensor v, Tensor grad, Tensor bias,
      Tensor dropout, Tensor padding, Tensor mask, Tensor max, Tensor sum, Tensor, Tensor out,
      Tensor sink, Tensor q_rope, Tensor k_rope, Tensor q_scale, Tensor k_scale, Tensor v_scale,
      Tensor, Tensor, Ints prefix, Ints q_ends, Ints k_ends, int64_t, int64_t, double scale,
      double keep, int64_t before, int64_t after, int64_t heads, Text layout, Text, int64_t,
      int64_t mode, int64_t, int64_t, int64_t, int64_t, Tensor grad_q, Tensor grad_k, Tensor grad_v,
      Tensor, Tensor, Tensor grad_bias, Tensor) {
  refuse(padding);
  TORCH_CHECK(!present(q_rope) && !present(k_rope) && !present(sink) && !present(q_scale) &&
                  !present(k_scale) && !present(v_scale),
              "attention with rope, sink or float8 scales is not emulated");
  run_backward({bias, mask, scale, before, after, heads, layout, mode, prefix, dropout, keep},
               q_ends, k_ends, q, k, v, {grad, max, sum, out}, grad_q, grad_k, grad_v, grad_bias);
}

// Joins the attention over two sets of keys, from their outputs and statistics; outputs are [S, B,
// H], statistics [B, N, S, 8].
ACLNN(RingAttentionUpdateV2, Tensor out1, Tensor max1, Tensor sum1, Tensor out2, Tensor max2,
      Tensor sum2, Tensor, Text layout, Text, Tensor out, Tensor max, Tensor sum) {
  TORCH_CHECK(layout == "SBH" || layout.empty(), "joining attention of the layout ", layout,
              " is not emulated");
  const Tensor m = at::maximum(max1, max2);
  const Tensor part1 = sum1 * at::exp(max1 - m), part2 = sum2 * at::exp(max2 - m),
               total = part1 + part2;
  const int64_t heads = max1.size(1);
  auto weighted = [&](const Tensor& x_SBH, const Tensor& part_BNS8) {
    const Tensor share_SBN1 = (part_BNS8 / total).slice(-1, 0, 1).permute({2, 0, 1, 3});
    return x_SBH.to(at::kFloat).unflatten(2, {heads, -1}) * share_SBN1;
  };
  put(out, (weighted(out1, part1) + weighted(out2, part2)).flatten(2));
  put(max, m);
  put(sum, total);
}
