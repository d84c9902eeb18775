#include "nn/parallel_linear.h"

#include <c10/core/GradMode.h>

#include "base/error.h"
#include "comm/collectives.h"
#include "comm/ring.h"
#include "nn/autograd_data.h"
#include "nn/sequence.h"
#include "ops/deferred.h"
#include "ops/linear.h"
#include "ops/matmul.h"

// Dims: B sequences, T tokens of all tensor-parallel ranks, t = T / tp of one, D features.
namespace titan::nn {
namespace {

using at::Tensor;
using ops::matrix_product;
using ops::Replay;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using Sink = std::function<void(const Tensor&)>;

// Where the gradients of the weights go: null sinks into the graph.
struct WeightGradients {
  ops::DeferredGradients* queue = nullptr;
  std::vector<Sink> sinks;
};

// The weights as the graph shall see them: those whose gradients are put off are no inputs of it.
std::vector<Tensor> graph_weights(const Tensor& x, const std::vector<Tensor>& weights,
                                  WeightGradients& gradients) {
  gradients.sinks.resize(weights.size());
  if (!ops::deferred_gradients() || !x.requires_grad() || !at::GradMode::is_enabled()) {
    return weights;
  }
  gradients.queue = ops::deferred_gradients();
  std::vector<Tensor> result;
  for (size_t i = 0; i < weights.size(); ++i) {
    gradients.sinks[i] = ops::deferred_sink(weights[i]);
    result.push_back(gradients.sinks[i] ? weights[i].detach() : weights[i]);
  }
  return result;
}

// dW = dy^T x of rows [n, out], [n, in]: now, or put off.
Tensor weight_gradient(const WeightGradients& gradients, size_t i, const Tensor& dy,
                       const Tensor& x) {
  if (!gradients.sinks[i]) return matrix_product(dy.t(), x);
  gradients.queue->push_back(
      [dy, x, sink = gradients.sinks[i]] { sink(matrix_product(dy.t(), x)); });
  return {};
}

// The tokens of rank r of x_BTD, as rows.
Tensor rows_of(const Tensor& x_BTD, int64_t r, const comm::Group& tp) {
  const int64_t t = x_BTD.size(1) / tp.size();
  return x_BTD.narrow(1, r * t, t).reshape({-1, x_BTD.size(2)});
}

// Gathers x_BtD and calls visit(r, rows of rank r) as they come in. Returns [B, T, D].
Tensor gather_rows(const Tensor& x_BtD, const comm::Group& tp,
                   const std::function<void(int64_t, const Tensor&)>& visit) {
  const auto b = x_BtD.size(0), t = x_BtD.size(1), d = x_BtD.size(2);
  Tensor chunks = at::empty({tp.size(), b, t, d}, x_BtD.options());
  chunks[tp.rank()].copy_(x_BtD);
  comm::ring_gather(tp, chunks, [&](int64_t r) { visit(r, chunks[r].view({b * t, d})); });
  return chunks.transpose(0, 1).reshape({b, tp.size() * t, d});  // a view for one sequence
}

// Puts rows of rank r where they belong in y_BTD.
void place_rows(const Tensor& y_BTD, int64_t r, const Tensor& rows, const comm::Group& tp) {
  const int64_t t = y_BTD.size(1) / tp.size();
  y_BTD.narrow(1, r * t, t).copy_(rows.view({y_BTD.size(0), t, y_BTD.size(2)}));
}

struct GatherLinear : torch::autograd::Function<GatherLinear> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, at::TensorList weights,
                               const std::vector<Replay>& replays, const WeightGradients& gradients,
                               const comm::Group& tp) {
    variable_list outputs;
    std::vector<size_t> wanted;  // a second run may keep or leave out some
    for (size_t i = 0; i < weights.size(); ++i) {
      const std::vector<int64_t> shape = {x.size(0), x.size(1) * tp.size(), weights[i].size(0)};
      outputs.push_back(ops::output_for_replay(replays[i], shape, x, [&] {
        wanted.push_back(i);
        return at::empty(shape, x.options());
      }));
    }
    const Tensor all = gather_rows(x, tp, [&](int64_t r, const Tensor& rows) {
      for (const size_t i : wanted) {
        place_rows(outputs[i], r, matrix_product(rows, weights[i].t()), tp);
      }
    });
    variable_list saved(weights.begin(), weights.end());
    saved.push_back(all);
    ctx->save_for_backward(saved);
    keep_data(ctx, "gradients", gradients);
    comm::keep_group(ctx, tp);
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto& gradients = kept_data<WeightGradients>(ctx, "gradients");
    const comm::Group tp = comm::kept_group(ctx);
    const size_t count = grads.size();
    const Tensor& all = saved[count];
    variable_list result(count + 4);
    const auto weights = [&] {
      for (size_t i = 0; i < count; ++i) {
        if (!gradients.sinks[i] && !ctx->needs_input_grad(i + 1)) continue;
        result[i + 1] = weight_gradient(gradients, i, grads[i].flatten(0, 1), all.flatten(0, 1));
      }
    };
    if (!ctx->needs_input_grad(0)) {
      weights();
      return result;
    }
    const auto part = [&](int64_t r) {
      Tensor sum;
      for (size_t i = 0; i < count; ++i) {
        const Tensor term = matrix_product(rows_of(grads[i], r, tp), saved[i]);
        sum = sum.defined() ? sum.add_(term) : term;
      }
      return sum;
    };
    const Tensor dx = comm::ring_reduce(tp, part, weights);
    result[0] = dx.view({all.size(0), all.size(1) / tp.size(), all.size(2)});
    return result;
  }
};

struct LinearScatter : torch::autograd::Function<LinearScatter> {
  static Tensor forward(AutogradContext* ctx, const Tensor& y, const Tensor& weight, Replay replay,
                        const WeightGradients& gradients, const comm::Group& tp) {
    ctx->save_for_backward({y, weight});
    keep_data(ctx, "gradients", gradients);
    comm::keep_group(ctx, tp);
    const std::vector<int64_t> shape = {y.size(0), y.size(1) / tp.size(), weight.size(0)};
    return ops::output_for_replay(replay, shape, y, [&] {
      const auto part = [&](int64_t r) { return matrix_product(rows_of(y, r, tp), weight.t()); };
      return comm::ring_reduce(tp, part).view(shape);
    });
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &y = saved[0], &weight = saved[1];
    const auto& gradients = kept_data<WeightGradients>(ctx, "gradients");
    const comm::Group tp = comm::kept_group(ctx);
    variable_list result(5);
    if (ctx->needs_input_grad(0)) result[0] = at::empty(y.sizes(), y.options());
    const Tensor all = gather_rows(grads[0], tp, [&](int64_t r, const Tensor& rows) {
      if (result[0].defined()) place_rows(result[0], r, matrix_product(rows, weight), tp);
    });
    if (gradients.sinks[0] || ctx->needs_input_grad(1)) {
      result[1] = weight_gradient(gradients, 0, all.flatten(0, 1), y.flatten(0, 1));
    }
    return result;
  }
};

}  // namespace

std::vector<Tensor> gather_linear(const Tensor& x, const std::vector<Projection>& projections,
                                  const Axes& axes) {
  std::vector<Tensor> weights, outputs;
  std::vector<Replay> replays;
  if (axes.overlap_tp && axes.tp.size() > 1) {
    for (const auto& [weight, replay, float8] : projections) {
      TITAN_CHECK(!float8, "float8 products taken apart by tokens");
      weights.push_back(weight);
      replays.push_back(replay);
    }
    WeightGradients gradients;
    weights = graph_weights(x, weights, gradients);
    return GatherLinear::apply(x, at::TensorList(weights), replays, gradients, axes.tp);
  }
  const Tensor all = gather_sequence(x, axes.tp);
  for (const auto& [weight, replay, float8] : projections) {
    outputs.push_back(ops::linear(all, weight, replay, float8));
  }
  return outputs;
}

Tensor linear_scatter(const Tensor& y, const Tensor& weight, const Axes& axes, Replay replay,
                      const std::optional<ops::Float8Recipe>& float8) {
  if (axes.tp.size() == 1) return ops::linear(y, weight, replay, float8);
  if (axes.overlap_tp) {
    TITAN_CHECK(!float8, "float8 products taken apart by tokens");
    WeightGradients gradients;
    const auto weights = graph_weights(y, {weight}, gradients);
    return LinearScatter::apply(y, weights[0], replay, gradients, axes.tp);
  }
  // The partial sums themselves have no reader but the collective.
  const Replay product = replay == Replay::kOutputUnused ? replay : Replay::kInputOfKept;
  return scatter_sequence(ops::linear(y, weight, product, float8), axes.tp, replay);
}

}  // namespace titan::nn
