#include "ops/linear.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/deferred.h"
#include "ops/matmul.h"

namespace titan::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Linear : torch::autograd::Function<Linear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w, Replay replay) {
    ctx->save_for_backward({x, w});
    auto shape = x.sizes().vec();
    shape.back() = w.size(0);
    return output_for_replay(replay, shape, x,
                             [&] { return matrix_product(x.flatten(0, -2), w.t()).view(shape); });
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor& w = saved[1];
    const Tensor dy = grads[0].flatten(0, -2);
    Tensor dx, dw;
    if (ctx->needs_input_grad(0)) dx = matrix_product(dy, w).view(x.sizes());
    if (ctx->needs_input_grad(1)) dw = matrix_product(dy.t(), x.flatten(0, -2));
    return {dx, dw, Tensor()};
  }
};

// Where the weight gradient goes; saved data holds IValues only.
struct DeferredWork : torch::CustomClassHolder {
  DeferredWork(DeferredGradients* queue, std::function<void(const Tensor&)> sink)
      : queue(queue), sink(std::move(sink)) {}
  DeferredGradients* queue;
  std::function<void(const Tensor&)> sink;
};

// The same product; w is no input of the graph, its gradient is put off.
struct DeferredLinear : torch::autograd::Function<DeferredLinear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w, Replay replay,
                        const c10::intrusive_ptr<DeferredWork>& work) {
    ctx->save_for_backward({x, w});
    ctx->saved_data["work"] = c10::IValue::make_capsule(work);
    auto shape = x.sizes().vec();
    shape.back() = w.size(0);
    return output_for_replay(replay, shape, x,
                             [&] { return matrix_product(x.flatten(0, -2), w.t()).view(shape); });
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor dy = grads[0].flatten(0, -2);
    const auto capsule = ctx->saved_data["work"].toCapsule();
    const auto work = c10::static_intrusive_pointer_cast<DeferredWork>(capsule);
    work->queue->push_back(
        [dy, rows = x.flatten(0, -2), sink = work->sink] { sink(matrix_product(dy.t(), rows)); });
    return {matrix_product(dy, saved[1]).view(x.sizes()), Tensor(), Tensor(), Tensor()};
  }
};

// The product in float8; with `work`, w is no input of the graph.
struct Float8Linear : torch::autograd::Function<Float8Linear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w, Replay replay,
                        const Float8Recipe& recipe, const c10::intrusive_ptr<DeferredWork>& work) {
    const Float8Product product(recipe, x.flatten(0, -2), w);
    variable_list saved;
    product.save(saved);
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["scaling"] = static_cast<int64_t>(recipe.scaling);
    ctx->saved_data["emulate"] = recipe.emulate;
    if (work) ctx->saved_data["work"] = c10::IValue::make_capsule(work);
    auto shape = x.sizes().vec();
    shape.back() = w.size(0);
    return output_for_replay(replay, shape, x,
                             [&] { return product.compute(x.scalar_type()).view(shape); });
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Float8Recipe recipe{
        .scaling = static_cast<Float8Scaling>(ctx->saved_data["scaling"].toInt()),
        .emulate = ctx->saved_data["emulate"].toBool()};
    const Float8Product product(recipe, ctx->get_saved_variables(), 0);
    const Tensor& dy = grads[0];
    const auto incoming = product.incoming(dy.flatten(0, -2));
    Tensor dx, dw;
    if (ctx->needs_input_grad(0)) {
      const Tensor rows = product.input_gradient(incoming);
      auto shape = dy.sizes().vec();
      shape.back() = rows.size(1);
      dx = rows.view(shape);
    }
    if (ctx->saved_data.find("work") != ctx->saved_data.end()) {
      const auto work =
          c10::static_intrusive_pointer_cast<DeferredWork>(ctx->saved_data["work"].toCapsule());
      work->queue->push_back([product, incoming, sink = work->sink] {
        sink(product.weight_gradient(incoming, incoming.wide.scalar_type()));
      });
    } else if (ctx->needs_input_grad(1)) {
      dw = product.weight_gradient(incoming, dy.scalar_type());
    }
    return {dx, dw, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& w, Replay replay,
              const std::optional<Float8Recipe>& float8) {
  if (deferred_gradients() && x.requires_grad() && at::GradMode::is_enabled()) {
    if (auto sink = deferred_sink(w)) {
      const auto work = c10::make_intrusive<DeferredWork>(deferred_gradients(), std::move(sink));
      return float8 ? Float8Linear::apply(x, w.detach(), replay, *float8, work)
                    : DeferredLinear::apply(x, w.detach(), replay, work);
    }
  }
  if (float8) return Float8Linear::apply(x, w, replay, *float8, c10::intrusive_ptr<DeferredWork>());
  return Linear::apply(x, w, replay);
}

}  // namespace titan::ops
