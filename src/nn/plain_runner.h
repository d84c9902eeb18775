// The simplest runner: parameters are whole on one device and cast to the dtype of the computation,
// nothing is recomputed.
#pragma once

#include "nn/block_runner.h"

namespace titan::nn {

class PlainRunner : public BlockRunner {
 public:
  explicit PlainRunner(at::ScalarType compute_dtype) : compute_dtype_(compute_dtype) {}

  at::Tensor parameter(const at::Tensor& stored) override { return stored.to(compute_dtype_); }
  at::Tensor table(const at::Tensor& stored) override { return stored; }
  at::ScalarType compute_dtype() const override { return compute_dtype_; }
  const Axes& axes() const override { return axes_; }

  at::Tensor run(int64_t, const at::Tensor& x,
                 const std::function<at::Tensor(const at::Tensor&)>& body) override {
    return body(x);
  }

 private:
  at::ScalarType compute_dtype_;
  Axes axes_;
};

}  // namespace titan::nn
