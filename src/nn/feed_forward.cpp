#include "nn/feed_forward.h"

#include "ops/linear.h"
#include "ops/swiglu.h"

namespace titan::nn {

at::Tensor feed_forward(const FeedForward& p, const at::Tensor& x) {
  return ops::linear(ops::swiglu(ops::linear(x, p.w1), ops::linear(x, p.w3)), p.w2,
                     ops::Replay::kOutputUnused);
}

}  // namespace titan::nn
