// Weight gradients that are put off: pipeline schedules that split the backward pass (Qi et al.
// 2023, arXiv 2401.10241, section 2) first compute what the stage before waits for.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <vector>

namespace titan::ops {

// What is left to do for one micro-batch, in the order of the backward pass.
using DeferredGradients = std::vector<std::function<void()>>;

// Says where the gradient of a weight goes, without the graph.
class WeightGradientSink {
 public:
  virtual ~WeightGradientSink() = default;
  // Null for a tensor that is no weight of its own: its gradient is not put off.
  virtual std::function<void(const at::Tensor& gradient)> sink_of(const at::Tensor& weight) = 0;
};

// While it lives, the matrix products that this thread records put their weight gradients off into
// `queue`, which must outlive the backward pass. Null pointers: nothing is put off.
class DeferGradients {
 public:
  DeferGradients(DeferredGradients* queue, WeightGradientSink* sink);
  ~DeferGradients();
  DeferGradients(const DeferGradients&) = delete;
  DeferGradients& operator=(const DeferGradients&) = delete;
};

// For ops: the queue in force (null: none) and where the gradient of `weight` goes.
DeferredGradients* deferred_gradients();
std::function<void(const at::Tensor&)> deferred_sink(const at::Tensor& weight);

}  // namespace titan::ops
