#include "nn/feed_forward.h"

#include "nn/parallel_linear.h"
#include "ops/swiglu.h"

namespace titan::nn {

at::Tensor feed_forward(const FeedForward& p, const at::Tensor& x, const Axes& axes) {
  const auto hidden = gather_linear(x, {{p.w1}, {p.w3}}, axes);
  return linear_scatter(ops::swiglu(hidden[0], hidden[1]), p.w2, axes, ops::Replay::kOutputUnused);
}

}  // namespace titan::nn
