// The seam between a model's maths and how it is run: a model asks the runner for its parameters
// and lets the runner run its blocks. The runner decides on dtypes, on recomputation and, with
// sharded parameters, on when they are gathered.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <string>

#include "nn/axes.h"
#include "ops/deferred.h"
#include "ops/float8_product.h"

namespace titan::nn {

class BlockRunner {
 public:
  virtual ~BlockRunner() = default;

  // Begins the forward pass of one micro-batch.
  virtual void begin_pass() {}
  // Whether the backward passes that follow are the last of the step.
  virtual void set_last_pass(bool) {}
  // No gradient of the step is to come: their reductions may start; they are not waited for.
  // Collective. Without it finish_gradients() starts what is left.
  virtual void start_reductions() {}
  // After the last backward pass of a step: every stored parameter has its gradient. Collective.
  virtual void finish_gradients() {}
  // Forgets a step that failed under way, whatever its pass had come to: the next begin_pass()
  // finds things as before the step. Waits for nothing.
  virtual void abandon_step() {}

  // The parameter in the dtype of the computation, differentiable with respect to the stored one.
  virtual at::Tensor parameter(const at::Tensor& stored) = 0;
  // The same for a table that rows are looked up in: perhaps still in its stored dtype.
  virtual at::Tensor table(const at::Tensor& stored) { return parameter(stored); }
  virtual at::ScalarType compute_dtype() const = 0;
  virtual const Axes& axes() const = 0;
  // How the products of the linear layer called `module` ("layers.3.attention.wq") are computed in
  // float8, if they are.
  virtual std::optional<ops::Float8Recipe> float8(const std::string& module) const {
    static_cast<void>(module);
    return std::nullopt;
  }

  // Where weight gradients that are put off go; null: none can be.
  virtual ops::WeightGradientSink* weight_gradient_sink() { return nullptr; }

  // body(x) for block `index` of the model, perhaps recomputed in the backward pass.
  virtual at::Tensor run(int64_t index, const at::Tensor& x,
                         const std::function<at::Tensor(const at::Tensor&)>& body) = 0;
};

}  // namespace titan::nn
