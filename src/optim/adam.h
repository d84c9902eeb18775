// Adam (Kingma & Ba 2015, arXiv 1412.6980) and AdamW (Loshchilov & Hutter 2019, arXiv 1711.05101,
// algorithm 2) on ATen's fused kernels. One step clips, unscales and updates; learning rate, clip
// coefficient and loss scale stay on the device.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "config/sections/optimizer.h"

namespace titan::optim {

// The L2 norm over all gradients, a 0-dim tensor of float32 (float64 for float64 gradients) on the
// device.
at::Tensor global_norm(at::TensorList gradients);

// The sum of their squares, likewise; gradients without elements and an empty list give 0.
at::Tensor sum_of_squares(at::TensorList gradients, const at::TensorOptions& scalar);

class Adam {
 public:
  // parameters: leaves that require gradients. States are zeros of their dtype, a step count is
  // kept per parameter.
  Adam(const config::Optimizer& config, std::vector<std::pair<std::string, at::Tensor>> parameters);

  struct Inputs {
    // 0-dim, float32 (float64 for float64 parameters). Of an NPU's parameters: on the CPU for the
    // fused kernel, on the NPU for steps that read nothing from the host.
    at::Tensor lr;
    at::Tensor divisor;    // 0-dim, float32 or float64: gradients are divided by it (loss scale /
                           // clip coefficient)
    at::Tensor found_inf;  // 0-dim float32, 1: skip this step; undefined: never skip
  };
  // Reads the parameters' gradients, which it may change.
  void step(const Inputs& inputs);
  // The same for some of the parameters, by their number.
  void step(const Inputs& inputs, std::span<const size_t> which);

  // Where parameters, gradients and states lie.
  at::Device device() const {
    return parameters_.empty() ? at::Device(at::kCPU) : parameters_[0].device();
  }

  // Gradients of all parameters, zeros where the backward pass reached none.
  std::vector<at::Tensor> gradients();
  at::Tensor gradient(size_t parameter);
  void clear_gradients();
  void clear_gradient(size_t parameter) { parameters_[parameter].mutable_grad().reset(); }

  // exp_avg.<name>, exp_avg_sq.<name>, step.<name>: the tensors themselves, for checkpoints.
  void visit_state(const std::function<void(const std::string& name, at::Tensor& state)>& visitor);

 private:
  // What one step changes: the parameters that have elements here.
  struct Tensors {
    std::vector<at::Tensor> parameters, gradients, exp_avg, exp_avg_sq, steps;
    std::vector<at::Tensor> counts;  // of all parameters of the step, with elements or without
  };
  void step_on_npu(const Inputs& inputs, const Tensors& tensors);
  void step_from_device(const Inputs& inputs, const Tensors& tensors);

  bool decoupled_;  // AdamW
  double beta1_, beta2_, eps_, weight_decay_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_, exp_avg_, exp_avg_sq_, steps_;
};

}  // namespace titan::optim
