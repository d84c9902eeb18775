#include "ops/rope.h"

#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "ops/cpu_kernels.h"
#include "ops/npu_ops.h"

namespace titan::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One angle per element instead of one per pair.
Tensor spread(const Tensor& table, bool interleaved) {
  return interleaved ? at::stack({table, table}, -1).flatten(-2) : at::cat({table, table}, -1);
}

Tensor rotate_on_npu(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved,
                     double sign) {
  const bool is_spread = cos.size(-1) == x.size(-1);
  const auto table = [&](const Tensor& t) { return is_spread ? t : spread(t, interleaved); };
  const Tensor wide = x.to(at::kFloat);
  const auto rotate_by = sign < 0 ? npu::rotate_back : npu::rotate;
  return rotate_by(wide, table(cos), table(sin), interleaved).to(x.scalar_type());
}

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved,
              double sign) {
  if (npu::is_npu(x)) return rotate_on_npu(x, cos, sin, interleaved, sign);
  if (x.is_cpu() && x.scalar_type() == at::kFloat && cos.scalar_type() == at::kFloat) {
    const Tensor in = x.contiguous();
    Tensor out = at::empty_like(in);
    cpu::rope(in.const_data_ptr<float>(), cos.const_data_ptr<float>(), sin.const_data_ptr<float>(),
              in.size(0) * in.size(1), cos.numel() / cos.size(-1), in.size(2), in.size(3) / 2,
              interleaved, static_cast<float>(sign), out.mutable_data_ptr<float>());
    return out;
  }
  if (x.is_cuda() && interleaved) {
    // A complex product reads and writes each element once.
    const auto wide = at::promote_types(x.scalar_type(), at::kFloat);
    const Tensor pairs =
        at::view_as_complex(x.to(wide).unflatten(-1, {x.size(-1) / 2, 2}).contiguous());
    const Tensor turn = at::complex(cos.to(wide), (sin * sign).to(wide)).unsqueeze(-2);
    return at::view_as_real(pairs * turn).flatten(-2).to(x.scalar_type());
  }
  return reference::rope(x, cos, sin * sign, interleaved);
}

struct Rope : torch::autograd::Function<Rope> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& cos, const Tensor& sin,
                        bool interleaved) {
    ctx->save_for_backward({cos, sin});
    ctx->saved_data["interleaved"] = interleaved;
    return rotate(x, cos, sin, interleaved, 1);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {rotate(grads[0], saved[0], saved[1], ctx->saved_data["interleaved"].toBool(), -1),
            Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

namespace reference {

Tensor rope(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  const auto wide = at::promote_types(x.scalar_type(), at::kFloat);
  const Tensor c = cos.to(wide).unsqueeze(-2), s = sin.to(wide).unsqueeze(-2);
  const int64_t half = x.size(-1) / 2;
  if (interleaved) {
    const Tensor pairs = x.to(wide).unflatten(-1, {half, 2});
    const Tensor a = pairs.select(-1, 0), b = pairs.select(-1, 1);
    return at::stack({a * c - b * s, a * s + b * c}, -1).flatten(-2).to(x.scalar_type());
  }
  const Tensor a = x.narrow(-1, 0, half).to(wide), b = x.narrow(-1, half, half).to(wide);
  return at::cat({a * c - b * s, a * s + b * c}, -1).to(x.scalar_type());
}

}  // namespace reference

Tensor rotary_table(const Tensor& table, bool interleaved, at::Device device) {
  const bool spreads = device.type() == at::kPrivateUse1;
  return (spreads ? spread(table, interleaved) : table).to(device);
}

Tensor rope(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  const bool is_spread = npu::is_npu(x) && cos.size(-1) == x.size(3);
  TITAN_CHECK(cos.sizes() == sin.sizes() && (is_spread || 2 * cos.size(-1) == x.size(3)) &&
                  cos.size(-2) == x.size(1) && (cos.dim() == 2 || cos.size(0) == x.size(0)),
              "rotary tables of {} angles by {} positions fit no [{}, {}, {}, {}]", cos.size(-1),
              cos.size(-2), x.size(0), x.size(1), x.size(2), x.size(3));
  return Rope::apply(x, cos.contiguous(), sin.contiguous(), interleaved);
}

}  // namespace titan::ops
