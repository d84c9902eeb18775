#include "nn/sequence.h"

#include "comm/collectives.h"

#include <torch/csrc/autograd/custom_function.h>

namespace titan::nn {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// comm::reduce_scatter, left out of a second run where its result is not needed.
struct ScatterSequence : torch::autograd::Function<ScatterSequence> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const comm::Group& tp,
                        ops::Replay replay) {
    comm::keep_group(ctx, tp);
    auto shape = x.sizes().vec();
    shape[1] /= tp.size();
    return ops::output_for_replay(replay, shape, x, [&] { return tp.reduce_scatter(x, 1); });
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {comm::kept_group(ctx).all_gather(grads[0], 1), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor gather_sequence(const Tensor& x, const comm::Group& tp) { return comm::gather(x, tp, 1); }

Tensor scatter_sequence(const Tensor& x, const comm::Group& tp, ops::Replay replay) {
  return tp.size() == 1 ? x : ScatterSequence::apply(x, tp, replay);
}

}  // namespace titan::nn
