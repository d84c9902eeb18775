#include "nn/feed_forward.h"

#include <c10/core/GradMode.h>

#include "base/error.h"
#include "nn/parallel_linear.h"
#include "ops/deferred.h"
#include "ops/rms_norm.h"
#include "ops/swiglu.h"

namespace titan::nn {

at::Tensor feed_forward_half(const at::Tensor& norm, double eps, const FeedForward& p,
                             const at::Tensor& x, const Axes& axes, ops::Float8Products float8) {
  if (axes.tp.size() == 1 && !ops::deferred_gradients() &&
      ops::feed_forward_half_serves(x, p.w1.size(0))) {
    return ops::feed_forward_half(
        x,
        {.norm = norm, .w_gate = p.w1, .w_up = p.w3, .w_down = p.w2, .eps = eps, .float8 = float8});
  }
  TITAN_CHECK(!at::GradMode::is_enabled() || !(float8.into || float8.out_of),
              "float8 products of feed-forward layers in a layout without them");
  const auto hidden = gather_linear(ops::rms_norm(x, norm, eps), {{p.w1}, {p.w3}}, axes);
  return x +
         linear_scatter(ops::swiglu(hidden[0], hidden[1]), p.w2, axes, ops::Replay::kOutputUnused);
}

}  // namespace titan::nn
