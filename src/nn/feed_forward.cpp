#include "nn/feed_forward.h"

#include "nn/sequence.h"
#include "ops/linear.h"
#include "ops/swiglu.h"

namespace titan::nn {

at::Tensor feed_forward(const FeedForward& p, const at::Tensor& x, const comm::Group& tp) {
  const at::Tensor all = gather_sequence(x, tp);
  const at::Tensor hidden = ops::swiglu(ops::linear(all, p.w1), ops::linear(all, p.w3));
  return scatter_sequence(ops::linear(hidden, p.w2, ops::Replay::kOutputUnused), tp,
                          ops::Replay::kOutputUnused);
}

}  // namespace titan::nn
