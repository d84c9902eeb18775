#include "ops/linear.h"

#include <torch/csrc/autograd/custom_function.h>

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

}  // namespace

Tensor linear(const Tensor& x, const Tensor& w, Replay replay) {
  return Linear::apply(x, w, replay);
}

}  // namespace titan::ops
