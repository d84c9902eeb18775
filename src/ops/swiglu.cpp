#include "ops/swiglu.h"

#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "ops/cpu_kernels.h"
#include "ops/npu_ops.h"

namespace titan::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool swiglu_on_cpu(const Tensor& x) { return x.is_cpu() && x.scalar_type() == at::kFloat; }

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_in, const Tensor& up_in) {
    const Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
    ctx->save_for_backward({gate, up});
    if (!swiglu_on_cpu(gate)) return at::silu(gate).mul_(up);
    Tensor y = at::empty_like(gate);
    cpu::swiglu(gate.const_data_ptr<float>(), up.const_data_ptr<float>(), gate.numel(),
                y.mutable_data_ptr<float>());
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &gate = saved[0], &up = saved[1];
    const Tensor dy = grads[0].contiguous();
    if (!swiglu_on_cpu(gate)) return {at::silu_backward(dy * up, gate), dy * at::silu(gate)};
    const Tensor d_gate = at::empty_like(gate), d_up = at::empty_like(up);
    cpu::swiglu_backward(dy.const_data_ptr<float>(), gate.const_data_ptr<float>(),
                         up.const_data_ptr<float>(), gate.numel(), d_gate.mutable_data_ptr<float>(),
                         d_up.mutable_data_ptr<float>());
    return {d_gate, d_up};
  }
};

// torch_npu's kernels read and write gate and up as one tensor.
struct SwiGluNpu : torch::autograd::Function<SwiGluNpu> {
  static Tensor forward(AutogradContext* ctx, const Tensor& gate, const Tensor& up) {
    const int64_t dim = gate.size(-1);
    const Tensor both = at::cat({gate.reshape({-1, dim}), up.reshape({-1, dim})}, 0);
    ctx->save_for_backward({both});
    return npu::swiglu(both).view(gate.sizes());
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor& dy = grads[0];
    const auto saved = ctx->get_saved_variables();
    const auto gradients =
        npu::swiglu_backward(dy.reshape({-1, dy.size(-1)}), saved[0]).chunk(2, 0);
    return {gradients[0].view(dy.sizes()), gradients[1].view(dy.sizes())};
  }
};

}  // namespace

namespace reference {
Tensor swiglu(const Tensor& gate, const Tensor& up) { return at::silu(gate) * up; }
}  // namespace reference

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  TITAN_CHECK(gate.sizes() == up.sizes() && gate.scalar_type() == up.scalar_type(),
              "gate and up of {} and {} elements differ in shape or dtype", gate.numel(),
              up.numel());
  if (npu::is_npu(gate)) return SwiGluNpu::apply(gate, up);
  return SwiGlu::apply(gate, up);
}

}  // namespace titan::ops
