// N tokens, K experts for each (top_k), D the width.
#include "ops/token_permutation.h"

#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "base/error.h"
#include "ops/npu_moe.h"
#include "ops/npu_ops.h"

namespace titan::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<Tensor>;

// Of the sorted copies: which copy lies at a row.
Tensor copies_by_expert(const Tensor& experts) {
  return at::argsort(experts.reshape(-1), /*stable=*/true, 0, /*descending=*/false);
}

Tensor positions_of(const Tensor& order) {
  return at::empty_like(order)
      .scatter_(0, order, at::arange(order.numel(), order.options()))
      .to(at::kInt);
}

// The copies of each token: [N, K, D].
Tensor copies_of(const Tensor& rows, const Tensor& position, int64_t top_k) {
  return rows.index_select(0, position).view({position.numel() / top_k, top_k, rows.size(1)});
}

Tensor widened(const Tensor& x) { return x.to(at::promote_types(x.scalar_type(), at::kFloat)); }

// [N, K, D] -> rows by position.
Tensor rows_of(const Tensor& copies, const Tensor& position) {
  const Tensor flat = copies.flatten(0, 1);
  return at::empty_like(flat).index_copy_(0, position.to(at::kLong), flat);
}

struct Permute : torch::autograd::Function<Permute> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& experts) {
    const Tensor order = copies_by_expert(experts);
    const Tensor position = positions_of(order);
    ctx->save_for_backward({position});
    ctx->saved_data["top_k"] = experts.size(1);
    ctx->mark_non_differentiable({position});
    ctx->set_materialize_grads(false);
    return {x.index_select(0, at::floor_divide(order, experts.size(1))), position};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor copies = copies_of(grads[0], saved[0], ctx->saved_data["top_k"].toInt());
    return {copies.sum(1), Tensor()};
  }
};

struct Unpermute : torch::autograd::Function<Unpermute> {
  static Tensor forward(AutogradContext* ctx, const Tensor& rows, const Tensor& position,
                        const Tensor& weights) {
    ctx->save_for_backward({rows, position, weights});
    const Tensor copies = copies_of(rows, position, weights.size(1));
    const auto dtype = at::promote_types(at::kFloat, rows.scalar_type());
    return (copies * weights.to(dtype).unsqueeze(-1)).sum(1).to(rows.scalar_type());
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &rows = saved[0], &position = saved[1], &weights = saved[2];
    const Tensor dy = widened(grads[0]).unsqueeze(1);
    Tensor d_rows, d_weights;
    if (ctx->needs_input_grad(0)) {
      const Tensor copies = dy * weights.to(dy.scalar_type()).unsqueeze(-1);
      d_rows = rows_of(copies.to(rows.scalar_type()), position);
    }
    if (ctx->needs_input_grad(2)) {
      const Tensor copies = copies_of(rows, position, weights.size(1));
      d_weights = (copies * dy).sum(-1).to(weights.scalar_type());
    }
    return {d_rows, Tensor(), d_weights};
  }
};

// The sum of the copies as they are.
struct SumCopies : torch::autograd::Function<SumCopies> {
  static Tensor forward(AutogradContext* ctx, const Tensor& rows, const Tensor& position,
                        int64_t top_k) {
    ctx->save_for_backward({position});
    ctx->saved_data["top_k"] = top_k;
    return copies_of(rows, position, top_k).sum(1);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor copies =
        grads[0].unsqueeze(1).expand({-1, ctx->saved_data["top_k"].toInt(), -1}).contiguous();
    return {rows_of(copies, saved[0]), Tensor(), Tensor()};
  }
};

struct PermuteWeights : torch::autograd::Function<PermuteWeights> {
  static Tensor forward(AutogradContext* ctx, const Tensor& weights, const Tensor& position) {
    ctx->save_for_backward({position});
    ctx->saved_data["top_k"] = weights.size(1);
    return rows_of(weights.unsqueeze(-1), position).squeeze(-1);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const int64_t top_k = ctx->saved_data["top_k"].toInt(), copies = saved[0].numel();
    return {grads[0].index_select(0, saved[0]).view({copies / top_k, top_k}), Tensor()};
  }
};

void check_copies(int64_t rows, int64_t top_k) {
  TITAN_CHECK(rows <= std::numeric_limits<int32_t>::max(), "{} copies of tokens", rows);
  TITAN_CHECK(top_k >= 1 && rows % top_k == 0, "{} copies of tokens with {} experts each", rows,
              top_k);
}

// The kernels on a chip are not asked for nothing.
bool on_npu(const Tensor& x) { return npu::is_npu(x) && x.numel() > 0; }

}  // namespace

namespace reference {

PermutedTokens permute_tokens(const Tensor& x, const Tensor& experts) {
  const Tensor order = copies_by_expert(experts);
  return {x.index_select(0, at::floor_divide(order, experts.size(1))), positions_of(order)};
}

Tensor unpermute_tokens(const Tensor& rows, const Tensor& position, int64_t top_k,
                        const OptionalTensor& weights) {
  Tensor copies = widened(copies_of(rows, position, top_k));
  if (weights) copies = copies * weights->to(copies.scalar_type()).unsqueeze(-1);
  return copies.sum(1).to(rows.scalar_type());
}

}  // namespace reference

PermutedTokens permute_tokens(const Tensor& x, const Tensor& experts) {
  TITAN_CHECK(x.dim() == 2 && experts.dim() == 2 && experts.size(0) == x.size(0),
              "tokens of {} rows and experts for {}", x.size(0), experts.size(0));
  check_copies(experts.numel(), experts.size(1));
  if (on_npu(x)) {
    const auto permuted = npu::permute(x.contiguous(), experts.contiguous());
    return {permuted.rows, permuted.position};
  }
  const auto result = Permute::apply(x, experts);
  return {result[0], result[1]};
}

Tensor unpermute_tokens(const Tensor& rows, const Tensor& position, int64_t top_k,
                        const OptionalTensor& weights) {
  check_copies(rows.size(0), top_k);
  TITAN_CHECK(position.numel() == rows.size(0), "{} positions of {} rows", position.numel(),
              rows.size(0));
  TITAN_CHECK(!weights || (weights->dim() == 2 && weights->size(1) == top_k &&
                           weights->numel() == rows.size(0)),
              "{} weights for {} rows", weights->numel(), rows.size(0));
  if (on_npu(rows)) {
    OptionalTensor factors;
    if (weights) {
      factors = weights->contiguous();
    } else if (top_k > 1) {
      // Without factors the kernel takes every row for a token of its own.
      factors = at::ones({rows.size(0) / top_k, top_k}, rows.options().dtype(at::kFloat));
    }
    return npu::unpermute(rows.contiguous(), position, factors);
  }
  if (weights) return Unpermute::apply(rows, position, *weights);
  return SumCopies::apply(rows, position, top_k);
}

Tensor permute_weights(const Tensor& weights, const Tensor& position) {
  TITAN_CHECK(weights.dim() == 2 && weights.numel() == position.numel(), "{} weights for {} rows",
              weights.numel(), position.numel());
  return PermuteWeights::apply(weights, position);
}

Tensor count_tokens(const Tensor& experts, int64_t num_experts) {
  const Tensor flat = experts.reshape(-1).to(at::kLong);
  return at::zeros({num_experts}, flat.options()).scatter_add_(0, flat, at::ones_like(flat));
}

}  // namespace titan::ops
