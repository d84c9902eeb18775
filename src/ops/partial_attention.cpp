#include "ops/partial_attention.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/document_tiles.h"
#include "ops/partial_attention_kernels.h"

namespace titan::ops {
namespace {

using at::Tensor;

constexpr double kUnseenInHalf = -3e4;

// Scores that the plain maths holds at a time, and elements of a mask for a kernel.
constexpr int64_t kTileScores = int64_t{1} << 22, kTileMask = int64_t{1} << 28;

at::ScalarType wide_dtype(const Tensor& x) {
  return at::promote_types(x.scalar_type(), at::kFloat);
}

// Query heads that share a key head as more queries of one head: [B, H, T, D] -> [B, K, H/K * T, D]
Tensor fold_heads(const Tensor& x, int64_t kv_heads) {
  if (x.size(1) == kv_heads) return x;
  return x.reshape({x.size(0), kv_heads, x.size(1) / kv_heads * x.size(2), x.size(3)});
}

// [B or 1, 1, 1, rows, S], true = hidden, for the queries [first, first + rows); undefined: all
// seen.
Tensor hidden(const Visibility& see, int64_t first, int64_t rows, int64_t num_keys,
              at::Device device) {
  Tensor out;
  if (see.masked()) {
    out = see.query_documents.narrow(1, first, rows)
              .unsqueeze(2)
              .ne(see.key_documents.unsqueeze(1))
              .unsqueeze(1)
              .unsqueeze(1);
  }
  if (see.causal) {
    const auto options = at::TensorOptions(device).dtype(at::kLong);
    const Tensor future = at::arange(num_keys, options)
                              .unsqueeze(0)
                              .gt(at::arange(first, first + rows, options).unsqueeze(1))
                              .view({1, 1, 1, rows, num_keys});
    out = out.defined() ? out.logical_or(future) : future;
  }
  return out;
}

int64_t tile_rows(const Tensor& q, const Tensor& k) {
  const int64_t per_row = q.size(0) * q.size(1) * k.size(2);
  return std::clamp<int64_t>(kTileScores / std::max<int64_t>(per_row, 1), 1, q.size(2));
}

// Scaled scores [B, K, H/K, rows, S] of the wide queries [B, H, rows, D] and keys.
Tensor plain_scores(const Tensor& q, const Tensor& k, const Visibility& see, int64_t first) {
  const int64_t kv = k.size(1), group = q.size(1) / kv, rows = q.size(2);
  Tensor scores =
      at::matmul(fold_heads(q / std::sqrt(static_cast<double>(q.size(3))), kv), k.transpose(-1, -2))
          .view({q.size(0), kv, group, rows, k.size(2)});
  const Tensor mask = hidden(see, first, rows, k.size(2), q.device());
  if (mask.defined()) scores.masked_fill_(mask, kUnseen);
  return scores;
}

// What is added to the scores, [B, 1, rows, S] in the dtype of q. Kernels load it in aligned
// groups, hence the longer rows behind it.
Tensor additive_mask(const Tensor& q, const Visibility& see, int64_t first, int64_t rows,
                     int64_t num_keys) {
  const double unseen = q.scalar_type() == at::kHalf ? kUnseenInHalf : kUnseen;
  const Tensor padded = at::zeros({q.size(0), 1, rows, (num_keys + 15) / 16 * 16}, q.options());
  Tensor mask = padded.narrow(3, 0, num_keys);
  return mask.masked_fill_(hidden(see, first, rows, num_keys, q.device()).squeeze(2), unseen);
}

int64_t masked_rows(const Tensor& q, const Tensor& k) {
  return std::clamp<int64_t>(kTileMask / (q.size(0) * k.size(2)), 1, q.size(2));
}

// A kernel with a mask, for a tile of queries at a time.
PartialAttention masked_attention(AttentionKernel kernel, const Tensor& q, const Tensor& k,
                                  const Tensor& v, const Visibility& see) {
  PartialAttention all{at::empty(q.sizes(), q.options()),
                       at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat))};
  const int64_t step = masked_rows(q, k);
  for (int64_t first = 0; first < q.size(2); first += step) {
    const int64_t rows = std::min(step, q.size(2) - first);
    const Tensor mask = additive_mask(q, see, first, rows, k.size(2));
    const auto part = run_attention_kernel(kernel, q.narrow(2, first, rows), k, v, false, mask);
    all.out.narrow(2, first, rows).copy_(part.out);
    all.logsumexp.narrow(2, first, rows).copy_(part.logsumexp);
  }
  return all;
}

AttentionGradients masked_attention_backward(AttentionKernel kernel, const Tensor& grad,
                                             const Tensor& q, const Tensor& k, const Tensor& v,
                                             const Tensor& out, const Tensor& logsumexp,
                                             const Visibility& see) {
  const auto wide = k.options().dtype(at::kFloat);
  AttentionGradients all{at::empty(q.sizes(), q.options()), at::zeros(k.sizes(), wide),
                         at::zeros(v.sizes(), wide)};
  const int64_t step = masked_rows(q, k);
  for (int64_t first = 0; first < q.size(2); first += step) {
    const int64_t rows = std::min(step, q.size(2) - first);
    const auto tile = [&](const Tensor& x) { return x.narrow(2, first, rows); };
    const Tensor mask = additive_mask(q, see, first, rows, k.size(2));
    const auto part = run_attention_kernel_backward(kernel, tile(grad), tile(q), k, v, tile(out),
                                                    tile(logsumexp), false, mask);
    tile(all.q).copy_(part.q);
    all.k.add_(part.k);
    all.v.add_(part.v);
  }
  return all;
}

}  // namespace

PartialAttention partial_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const Visibility& see) {
  const at::NoGradGuard no_grad;
  TITAN_CHECK(!see.causal || q.size(2) == k.size(2), "causal attention of {} queries on {} keys",
              q.size(2), k.size(2));
  const auto tiles = see.masked() ? document_tiles(see) : std::nullopt;
  if (tiles) return tiled_attention(q, k, v, see.causal, *tiles);
  const auto kernel = attention_kernel(q, k.size(2), see.masked());
  if (kernel == AttentionKernel::kPlain) return reference::partial_attention(q, k, v, see);
  const int64_t kv = k.size(1), times = q.size(1) / kv;
  if (see.masked()) {
    return masked_attention(kernel, q, repeat_heads(k, times), repeat_heads(v, times), see);
  }
  if (kernel == AttentionKernel::kNpuFusion) {
    return run_attention_kernel(kernel, q, k, v, see.causal);
  }
  if (see.causal || times == 1) {
    return run_attention_kernel(kernel, q, repeat_heads(k, times), repeat_heads(v, times),
                                see.causal);
  }
  // Every query sees every key: the heads of a group read them as one.
  const auto part = run_attention_kernel(kernel, fold_heads(q, kv), k, v, false);
  return {part.out.reshape(q.sizes()), part.logsumexp.reshape({q.size(0), q.size(1), q.size(2)})};
}

AttentionGradients partial_attention_backward(const Tensor& grad, const Tensor& q, const Tensor& k,
                                              const Tensor& v, const Tensor& out,
                                              const Tensor& logsumexp, const Visibility& see) {
  const at::NoGradGuard no_grad;
  const auto tiles = see.masked() ? document_tiles(see) : std::nullopt;
  if (tiles) return tiled_attention_backward(grad, q, k, v, out, logsumexp, see.causal, *tiles);
  const auto kernel = attention_kernel(q, k.size(2), see.masked());
  if (kernel == AttentionKernel::kPlain) {
    return reference::partial_attention_backward(grad, q, k, v, out, logsumexp, see);
  }
  if (kernel == AttentionKernel::kNpuFusion) {
    return run_attention_kernel_backward(kernel, grad, q, k, v, out, logsumexp, see.causal);
  }
  const int64_t kv = k.size(1), times = q.size(1) / kv;
  if (see.masked() || see.causal || times == 1) {
    const Tensor keys = repeat_heads(k, times), values = repeat_heads(v, times);
    const auto all =
        see.masked() ? masked_attention_backward(kernel, grad, q, keys, values, out, logsumexp, see)
                     : run_attention_kernel_backward(kernel, grad, q, keys, values, out, logsumexp,
                                                     see.causal);
    return {all.q, sum_heads(all.k, times).to(k.scalar_type()),
            sum_heads(all.v, times).to(v.scalar_type())};
  }
  const auto folded = [&](const Tensor& x) { return fold_heads(x, kv); };
  const auto all =
      run_attention_kernel_backward(kernel, folded(grad), folded(q), k, v, folded(out),
                                    logsumexp.reshape({q.size(0), kv, times * q.size(2)}), false);
  return {all.q.reshape(q.sizes()), all.k, all.v};
}

void merge_partial_attention(Tensor& out, Tensor& logsumexp, const PartialAttention& part) {
  const at::NoGradGuard no_grad;
  const Tensor total = at::logaddexp(logsumexp, part.logsumexp);
  out.mul_((logsumexp - total).exp_().unsqueeze(-1));
  out.addcmul_(part.out.to(out.scalar_type()), (part.logsumexp - total).exp_().unsqueeze(-1));
  logsumexp.copy_(total);
}

namespace reference {

PartialAttention partial_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const Visibility& see) {
  const at::NoGradGuard no_grad;
  const auto dtype = wide_dtype(q);
  const Tensor keys = k.to(dtype), values = v.to(dtype);
  PartialAttention part{at::empty(q.sizes(), q.options()),
                        at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(dtype))};
  const int64_t step = tile_rows(q, k);
  for (int64_t first = 0; first < q.size(2); first += step) {
    const int64_t rows = std::min(step, q.size(2) - first);
    const Tensor tile = q.narrow(2, first, rows).to(dtype);
    Tensor scores = plain_scores(tile, keys, see, first);
    const Tensor sums = scores.logsumexp(-1, true);
    const Tensor weights = scores.sub_(sums).exp_().flatten(2, 3);
    part.out.narrow(2, first, rows).copy_(at::matmul(weights, values).view(tile.sizes()));
    part.logsumexp.narrow(2, first, rows).copy_(sums.squeeze(-1).flatten(1, 2));
  }
  return part;
}

AttentionGradients partial_attention_backward(const Tensor& grad, const Tensor& q, const Tensor& k,
                                              const Tensor& v, const Tensor& out,
                                              const Tensor& logsumexp, const Visibility& see) {
  const at::NoGradGuard no_grad;
  const auto dtype = wide_dtype(q);
  const int64_t kv = k.size(1), group = q.size(1) / kv;
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  const Tensor keys = k.to(dtype), values = v.to(dtype);
  Tensor dq = at::empty(q.sizes(), q.options());
  Tensor dk = at::zeros(k.sizes(), keys.options()), dv = at::zeros_like(dk);
  const int64_t step = tile_rows(q, k);
  for (int64_t first = 0; first < q.size(2); first += step) {
    const int64_t rows = std::min(step, q.size(2) - first);
    const auto tile = [&](const Tensor& x) { return x.narrow(2, first, rows).to(dtype); };
    const Tensor queries = tile(q), dout = fold_heads(tile(grad), kv);
    const auto per_row = [&](const Tensor& x) {
      return x.reshape({q.size(0), kv, group, rows, 1});
    };
    const Tensor weights = plain_scores(queries, keys, see, first)
                               .sub_(per_row(logsumexp.narrow(2, first, rows)))
                               .exp_();
    dv.add_(at::matmul(weights.flatten(2, 3).transpose(-1, -2), dout));
    const Tensor shift = per_row((tile(grad) * tile(out)).sum(-1));
    Tensor dscores = at::matmul(dout, values.transpose(-1, -2)).view(weights.sizes());
    dscores = dscores.sub_(shift).mul_(weights).mul_(scale).flatten(2, 3);
    dq.narrow(2, first, rows).copy_(at::matmul(dscores, keys).view(queries.sizes()));
    dk.add_(at::matmul(dscores.transpose(-1, -2), fold_heads(queries, kv)));
  }
  return {dq, dk.to(k.scalar_type()), dv.to(v.scalar_type())};
}

}  // namespace reference

}  // namespace titan::ops
