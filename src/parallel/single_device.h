// Runs a model whose parameters are whole on one device: casts them to the dtype of the computation and recomputes the
// blocks that the plan names.
#pragma once

#include "nn/block_runner.h"
#include "parallel/recompute_plan.h"

namespace titan::parallel {

class SingleDeviceRunner : public nn::BlockRunner {
 public:
  // An empty plan recomputes nothing.
  explicit SingleDeviceRunner(at::ScalarType compute_dtype, RecomputePlan plan = {})
      : compute_dtype_(compute_dtype), plan_(std::move(plan)) {}

  at::Tensor parameter(const at::Tensor& stored) override { return stored.to(compute_dtype_); }
  at::ScalarType compute_dtype() const override { return compute_dtype_; }

  at::Tensor run(int64_t index, const at::Tensor& x,
                 const std::function<at::Tensor(const at::Tensor&)>& body) override {
    const auto i = static_cast<size_t>(index);
    return i < plan_.size() && plan_[i] ? ops::recompute(body, x, *plan_[i]) : body(x);
  }

 private:
  at::ScalarType compute_dtype_;
  RecomputePlan plan_;
};

}  // namespace titan::parallel
