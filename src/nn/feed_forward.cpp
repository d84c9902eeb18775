#include "nn/feed_forward.h"

#include "nn/parallel_linear.h"
#include "ops/deferred.h"
#include "ops/rms_norm.h"
#include "ops/swiglu.h"

namespace titan::nn {

at::Tensor feed_forward_half(const at::Tensor& norm, double eps, const FeedForward& p,
                             const at::Tensor& x, const Axes& axes,
                             const ops::Float8Products& float8) {
  if (ops::fused_halves_take(float8) && axes.tp.size() == 1 && !ops::deferred_gradients() &&
      ops::feed_forward_half_serves(x, p.w1.size(0))) {
    return ops::feed_forward_half(
        x,
        {.norm = norm, .w_gate = p.w1, .w_up = p.w3, .w_down = p.w2, .eps = eps, .float8 = float8});
  }
  const auto hidden = gather_linear(
      ops::rms_norm(x, norm, eps),
      {{.weight = p.w1, .float8 = float8.into}, {.weight = p.w3, .float8 = float8.into}}, axes);
  return x + linear_scatter(ops::swiglu(hidden[0], hidden[1]), p.w2, axes,
                            ops::Replay::kOutputUnused, float8.out_of);
}

}  // namespace titan::nn
