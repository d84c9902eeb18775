// Routing of tokens to experts. N tokens of size H, each sent to k experts; the N*k copies are
// sorted by expert, in token order within one expert. `sorted[i]` is where the copy i of a token (i
// / k is its token) lies in the sorted order.
#include <ATen/ATen.h>

#include <cmath>

#include "ops/operator.h"

using namespace cannemu::ops;

static void no_padding(bool padded) {
  TORCH_CHECK(!padded, "routing with a capacity per expert is not emulated");
}

// Rows of a sorted tensor by position; those that were cut off are zero.
static Tensor rows_at(const Tensor& x, const Tensor& positions) {
  Tensor f = x.to(at::kFloat);
  const int64_t missing = positions.numel() - f.size(0);
  if (missing > 0) f = at::constant_pad_nd(f, {0, 0, 0, missing});
  return f.index_select(0, positions.reshape(-1).to(at::kLong));
}

ACLNN(MoeTokenPermute, Tensor tokens, Tensor experts, int64_t kept, bool padded, Tensor out,
      Tensor sorted) {
  no_padding(padded);
  const Tensor order = at::argsort(experts.reshape(-1), true, 0, false);
  const int64_t k = experts.numel() / tokens.size(0);
  put(sorted, at::empty_like(order).scatter_(0, order, at::arange(order.numel())));
  put(out, tokens.index_select(0, at::floor_divide(order.slice(0, 0, out.size(0)), k)));
}

ACLNN(MoeTokenPermuteGrad, Tensor grad, Tensor sorted, int64_t k, bool padded, Tensor out) {
  no_padding(padded);
  put(out, rows_at(grad, sorted).reshape({-1, k, grad.size(1)}).sum(1));
}

// Without probabilities each token has one copy.
ACLNN(MoeTokenUnpermute, Tensor x, Tensor sorted, Tensor probabilities, bool padded, Ints,
      Tensor out) {
  no_padding(padded);
  const bool weighted = present(probabilities);
  const int64_t k = weighted ? probabilities.size(-1) : 1;
  const Tensor rows = rows_at(x, sorted).reshape({-1, k, x.size(1)});
  put(out, (weighted ? rows * probabilities.to(at::kFloat).unsqueeze(-1) : rows).sum(1));
}

ACLNN(MoeTokenUnpermuteGrad, Tensor x, Tensor grad, Tensor sorted, Tensor probabilities,
      bool padded, Ints, Tensor grad_x, Tensor grad_probabilities) {
  no_padding(padded);
  const bool weighted = present(probabilities);
  const int64_t k = weighted ? probabilities.size(-1) : 1, size = grad.size(-1);
  const Tensor g = grad.to(at::kFloat).unsqueeze(1).expand({-1, k, -1});
  const Tensor copies = weighted ? g * probabilities.to(at::kFloat).unsqueeze(-1) : g;
  const Tensor all = at::zeros({sorted.numel(), size});
  all.index_copy_(0, sorted.reshape(-1).to(at::kLong), copies.reshape({-1, size}));
  put(grad_x, all.slice(0, 0, grad_x.size(0)));
  if (weighted && present(grad_probabilities)) {
    put(grad_probabilities, (rows_at(x, sorted).reshape({-1, k, size}) * g).sum(-1));
  }
}

// The same with a map [N, E] of which expert takes which token. `sorted` again says, for the copies
// in the order token, expert, where they lie in the order expert, token; every token must have as
// many experts. Optional probabilities are [N, E].
ACLNN(MoeTokenPermuteWithRoutingMap, Tensor tokens, Tensor map, Tensor probabilities, int64_t,
      bool padded, Tensor out, Tensor out_probabilities, Tensor sorted) {
  no_padding(padded);
  const Tensor by_expert = map.to(at::kBool).t().contiguous();
  const Tensor token =
      at::arange(tokens.size(0)).unsqueeze(0).expand(by_expert.sizes()).masked_select(by_expert);
  TORCH_CHECK(token.numel() == out.size(0), "the map chooses ", token.numel(),
              " copies, num_out_tokens is ", out.size(0));
  put(out, tokens.index_select(0, token));
  put(sorted, at::argsort(token, true, 0, false));
  if (present(probabilities))
    put(out_probabilities, probabilities.t().contiguous().masked_select(by_expert));
}

ACLNN(MoeTokenPermuteWithRoutingMapGrad, Tensor grad, Tensor grad_probabilities, Tensor sorted,
      Tensor map, int64_t, int64_t tokens, bool padded, Tensor out, Tensor out_probabilities) {
  no_padding(padded);
  put(out, rows_at(grad, sorted).reshape({tokens, -1, grad.size(1)}).sum(1));
  if (present(grad_probabilities)) {
    const Tensor by_expert = map.to(at::kBool).t().contiguous();
    const Tensor all = at::zeros(by_expert.sizes(), grad_probabilities.options());
    put(out_probabilities, all.masked_scatter(by_expert, grad_probabilities).t());
  }
}

ACLNN(MoeTokenUnpermuteWithRoutingMap, Tensor x, Tensor sorted, Tensor map, Tensor probabilities,
      bool padded, Ints shape, Tensor out, Tensor, Tensor, Tensor chosen) {
  no_padding(padded);
  Tensor rows = rows_at(x, sorted).reshape({shape[0], -1, x.size(1)});
  if (present(probabilities)) {
    const Tensor weights = probabilities.masked_select(map.to(at::kBool));
    put(chosen, weights);
    rows = rows * weights.to(at::kFloat).reshape({shape[0], -1, 1});
  }
  put(out, rows.sum(1));
}

// The two index arguments are `sorted` when there is no padding.
ACLNN(MoeTokenUnpermuteWithRoutingMapGrad, Tensor grad, Tensor sorted, Tensor, Tensor map, Tensor x,
      Tensor probabilities, bool padded, Ints shape, Tensor grad_x, Tensor grad_probabilities) {
  no_padding(padded);
  const int64_t k = sorted.numel() / shape[0], size = grad.size(1);
  const Tensor g = grad.to(at::kFloat).unsqueeze(1).expand({-1, k, -1});
  const bool weighted = present(probabilities);
  const Tensor chosen = map.defined() ? map.to(at::kBool) : Tensor();
  Tensor copies = g;
  if (weighted) copies = g * probabilities.masked_select(chosen).to(at::kFloat).reshape({-1, k, 1});
  const Tensor all = at::zeros({sorted.numel(), size});
  all.index_copy_(0, sorted.reshape(-1).to(at::kLong), copies.reshape({-1, size}));
  put(grad_x, all);
  if (weighted) {
    const Tensor part = (rows_at(x, sorted).reshape({-1, k, size}) * g).sum(-1).reshape(-1);
    put(grad_probabilities, at::zeros(chosen.sizes()).masked_scatter(chosen, part));
  }
}

// Scores of E experts, softmax (type 0) or sigmoid (1); the bias takes part in the choice only.
// With groups of experts only the best groups (by their best expert, or by the sum of their best
// two) are looked at.
ACLNN(MoeGatingTopK, Tensor x, Tensor bias, int64_t k, int64_t kept_groups, int64_t groups,
      int64_t group_mode, int64_t renormalize, int64_t type, bool want_scores, double scale,
      double eps, Tensor y, Tensor experts, Tensor scores_out) {
  const Tensor f = x.to(at::kFloat);
  const Tensor scores = type == 0 ? at::softmax(f, -1) : at::sigmoid(f);
  Tensor choice = present(bias) ? scores + bias.to(at::kFloat) : scores;
  if (groups > 1) {
    const Tensor grouped = choice.reshape({x.size(0), groups, -1});
    const Tensor rating =
        group_mode == 0 ? grouped.amax(-1) : std::get<0>(at::topk(grouped, 2, -1)).sum(-1);
    const Tensor best = at::argsort(rating, true, -1, true).slice(1, 0, kept_groups);
    const Tensor hidden = at::ones({x.size(0), groups}, at::kBool).scatter(1, best, false);
    choice = grouped.masked_fill(hidden.unsqueeze(-1), -INFINITY).reshape(choice.sizes());
  }
  const Tensor chosen = at::argsort(choice, true, -1, true).slice(1, 0, k);
  Tensor weights = scores.gather(1, chosen);
  if (type == 1 || renormalize == 1) weights = weights / (weights.sum(-1, true) + eps);
  put(y, weights * scale);
  put(experts, chosen);
  if (want_scores) put(scores_out, scores);
}
