// Runs a model whose parameters are whole on one device: casts them to the dtype of the computation
// and recomputes the blocks that the plan names.
#pragma once

#include "nn/plain_runner.h"
#include "parallel/recompute_plan.h"

namespace titan::parallel {

class SingleDeviceRunner : public nn::PlainRunner {
 public:
  // An empty plan recomputes nothing.
  explicit SingleDeviceRunner(at::ScalarType compute_dtype, RecomputePlan plan = {})
      : nn::PlainRunner(compute_dtype), plan_(std::move(plan)) {}

  at::Tensor run(int64_t index, const at::Tensor& x,
                 const std::function<at::Tensor(const at::Tensor&)>& body) override {
    const auto i = static_cast<size_t>(index);
    return i < plan_.size() && plan_[i] ? ops::recompute(body, x, *plan_[i]) : body(x);
  }

 private:
  RecomputePlan plan_;
};

}  // namespace titan::parallel
