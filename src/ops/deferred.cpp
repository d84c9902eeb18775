#include "ops/deferred.h"

#include "base/error.h"

namespace titan::ops {
namespace {

struct Deferral {
  DeferredGradients* queue = nullptr;
  WeightGradientSink* sink = nullptr;
};

Deferral& deferral() {
  thread_local Deferral current;
  return current;
}

}  // namespace

DeferGradients::DeferGradients(DeferredGradients* queue, WeightGradientSink* sink) {
  TITAN_CHECK(!deferral().queue, "deferrals do not nest");
  if (queue && sink) deferral() = {queue, sink};
}

DeferGradients::~DeferGradients() { deferral() = {}; }

DeferredGradients* deferred_gradients() { return deferral().queue; }

std::function<void(const at::Tensor&)> deferred_sink(const at::Tensor& weight) {
  return deferral().sink ? deferral().sink->sink_of(weight) : nullptr;
}

}  // namespace titan::ops
