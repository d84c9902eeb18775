// Normalisations and rotary position embedding; the sums are in float32 whatever the type.
#include <ATen/ATen.h>

#include "ops/operator.h"

using namespace cannemu::ops;

// The dims of x that gamma covers: its last ones.
static Ints covered(const Tensor& gamma) {
  Ints dims;
  for (int64_t dim = 1; dim <= gamma.dim(); ++dim) dims.push_back(-dim);
  return dims;
}

ACLNN(RmsNorm, Tensor x, Tensor gamma, double eps, Tensor y, Tensor rstd) {
  const Tensor f = x.to(at::kFloat);
  const Tensor r = at::rsqrt(f.pow(2).mean(covered(gamma), true) + eps);
  put(y, f * r * gamma.to(at::kFloat));
  put(rstd, r.reshape(rstd.sizes()));
}

ACLNN(RmsNormGrad, Tensor grad, Tensor x, Tensor rstd, Tensor gamma, Tensor grad_x,
      Tensor grad_gamma) {
  const Tensor f = x.to(at::kFloat), g = grad.to(at::kFloat);
  Ints shape(x.sizes().begin(), x.sizes().end() - gamma.dim());
  shape.resize(x.dim(), 1);
  const Tensor r = rstd.reshape(shape);
  const Tensor normal = f * r, g_normal = g * gamma.to(at::kFloat);
  put(grad_x, r * (g_normal - normal * (g_normal * normal).mean(covered(gamma), true)));
  put(grad_gamma, at::sum_to(g * normal, gamma.sizes()));
}

ACLNN(LayerNorm, Tensor x, Ints shape, Tensor weight, Tensor bias, double eps, Tensor y,
      Tensor mean, Tensor rstd) {
  const auto [normal, m, r] = at::native_layer_norm(x, shape, weight, bias, eps);
  put(y, normal);
  if (present(mean)) mean.copy_(m.reshape(mean.sizes()));
  if (present(rstd)) rstd.copy_(r.reshape(rstd.sizes()));
}

ACLNN(LayerNormBackward, Tensor grad, Tensor x, Ints shape, Tensor mean, Tensor rstd, Tensor weight,
      Tensor bias, Bools mask, Tensor grad_x, Tensor grad_weight, Tensor grad_bias) {
  const ScalarType type = x.scalar_type();
  const auto [gx, gw, gb] =
      at::native_layer_norm_backward(grad, x, shape, mean.to(type), rstd.to(type), weight, bias,
                                     {mask[0] != 0, mask[1] != 0, mask[2] != 0});
  if (mask[0]) put(grad_x, gx);
  if (mask[1]) put(grad_weight, gw);
  if (mask[2]) put(grad_bias, gb);
}

// Mode 0 pairs the halves of the last dim, mode 1 its neighbours; the transpose turns the other
// way.
static Tensor turned(const Tensor& x, int64_t mode, bool transposed) {
  TORCH_CHECK(mode == 0 || mode == 1, "rotary mode ", mode, " is not emulated");
  if (mode == 0) {
    const auto half = x.chunk(2, -1);
    return transposed ? at::cat({half[1], -half[0]}, -1) : at::cat({-half[1], half[0]}, -1);
  }
  const Tensor even = x.slice(-1, 0, std::nullopt, 2), odd = x.slice(-1, 1, std::nullopt, 2);
  return (transposed ? at::stack({odd, -even}, -1) : at::stack({-odd, even}, -1)).flatten(-2);
}

static Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode) {
  const Tensor f = x.to(at::kFloat);
  return f * cos.to(at::kFloat) + turned(f, mode, false) * sin.to(at::kFloat);
}

ACLNN(RotaryPositionEmbedding, Tensor x, Tensor cos, Tensor sin, int64_t mode, Tensor y) {
  put(y, rotated(x, cos, sin, mode));
}

ACLNN(RotaryPositionEmbeddingV2, Tensor x, Tensor cos, Tensor sin, int64_t mode, Tensor matrix,
      Tensor y) {
  TORCH_CHECK(!matrix.defined(), "a matrix of rotation is not emulated");
  put(y, rotated(x, cos, sin, mode));
}

// Gradients of cos and sin are given when x is.
ACLNN(RotaryPositionEmbeddingGrad, Tensor grad, Tensor cos, Tensor sin, Tensor x, int64_t mode,
      Tensor grad_x, Tensor grad_cos, Tensor grad_sin) {
  const Tensor g = grad.to(at::kFloat);
  put(grad_x, g * cos.to(at::kFloat) + turned(g * sin.to(at::kFloat), mode, true));
  if (!x.defined()) return;
  const Tensor f = x.to(at::kFloat);
  put(grad_cos, at::sum_to(g * f, cos.sizes()));
  put(grad_sin, at::sum_to(g * turned(f, mode, false), sin.sizes()));
}

// y = RMSNorm(x1 + x2); the sum is given too.
ACLNN(AddRmsNorm, Tensor x1, Tensor x2, Tensor gamma, double eps, Tensor y, Tensor rstd,
      Tensor sum) {
  const Tensor x = x1 + x2, f = x.to(at::kFloat);
  const Tensor r = at::rsqrt(f.pow(2).mean(covered(gamma), true) + eps);
  put(sum, x);
  put(y, f * r * gamma.to(at::kFloat));
  put(rstd, r.reshape(rstd.sizes()));
}
