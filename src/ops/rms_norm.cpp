#include "ops/rms_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/cpu_kernels.h"
#include "ops/cuda_ops.h"
#include "ops/npu_ops.h"

namespace titan::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct RmsNormCpu : torch::autograd::Function<RmsNormCpu> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, double eps) {
    const Tensor rows = x.contiguous();
    const int64_t dim = rows.size(-1);
    Tensor y = at::empty_like(rows);
    const Tensor inverse_rms = at::empty({rows.numel() / dim}, rows.options());
    cpu::rms_norm(rows.const_data_ptr<float>(), weight.const_data_ptr<float>(), eps,
                  inverse_rms.numel(), dim, y.mutable_data_ptr<float>(),
                  inverse_rms.mutable_data_ptr<float>());
    ctx->save_for_backward({rows, weight, inverse_rms});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor dy = grads[0].contiguous();
    const Tensor dx = at::empty_like(saved[0]);
    const Tensor dw = at::empty_like(saved[1]);
    cpu::rms_norm_backward(dy.const_data_ptr<float>(), saved[0].const_data_ptr<float>(),
                           saved[1].const_data_ptr<float>(), saved[2].const_data_ptr<float>(),
                           saved[2].numel(), saved[0].size(-1), dx.mutable_data_ptr<float>(),
                           dw.mutable_data_ptr<float>());
    return {dx, dw, Tensor()};
  }
};

struct RmsNormCuda : torch::autograd::Function<RmsNormCuda> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, double eps) {
    const Tensor rows = x.contiguous();
    const auto [y, inverse_rms] = cuda::rms_norm(rows, weight, eps);
    ctx->save_for_backward({rows, weight, inverse_rms});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto [dx, dw] =
        cuda::rms_norm_backward(grads[0].contiguous(), saved[0], saved[1], saved[2]);
    return {dx, dw, Tensor()};
  }
};

}  // namespace

namespace reference {

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  const Tensor wide = x.to(at::promote_types(x.scalar_type(), at::kFloat));
  return (wide * at::rsqrt(wide.square().mean(-1, true) + eps)).to(x.scalar_type()) * weight;
}

}  // namespace reference

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  if (x.is_cpu() && x.scalar_type() == at::kFloat)
    return RmsNormCpu::apply(x, weight.contiguous(), eps);
  if (x.is_cpu() && x.scalar_type() != at::kDouble) {
    // ATen's form on the CPU rounds its intermediate values to bfloat16.
    return RmsNormCpu::apply(x.to(at::kFloat), weight.to(at::kFloat).contiguous(), eps)
        .to(x.scalar_type());
  }
  if (npu::is_npu(x)) return npu::rms_norm(x, weight, eps).out;
  if (cuda::rms_norm_serves(x) && x.scalar_type() == weight.scalar_type()) {
    return RmsNormCuda::apply(x, weight.contiguous(), eps);
  }
  return at::rms_norm(x, {x.size(-1)}, weight, eps);
}

}  // namespace titan::ops
