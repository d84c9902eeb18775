// Fused optimizer steps.
#include <ATen/ATen.h>

#include <cmath>

#include "ops/operator.h"

using namespace cannemu::ops;

// One parameter; `step` is the number of steps before this one. The adapter passes the numbers as
// float.
ACLNN(ApplyAdamWV2, Tensor parameter, Tensor m, Tensor v, Tensor greatest, Tensor grad, Tensor step,
      float rate, float beta1, float beta2, float decay, float eps, bool amsgrad, bool maximize) {
  const double steps = step.item().toDouble() + 1;
  const double correction1 = 1 - std::pow(double{beta1}, steps),
               correction2 = 1 - std::pow(double{beta2}, steps);
  const Tensor g = maximize ? -grad.to(at::kFloat) : grad.to(at::kFloat);
  const Tensor decayed = parameter.to(at::kFloat) * (1 - double{rate} * decay);
  const Tensor mean = m.to(at::kFloat) * beta1 + g * (1 - double{beta1});
  const Tensor square = v.to(at::kFloat) * beta2 + g * g * (1 - double{beta2});
  m.copy_(mean);
  v.copy_(square);
  Tensor size = square;
  if (amsgrad) greatest.copy_(size = at::maximum(greatest.to(at::kFloat), square));
  parameter.copy_(decayed -
                  (rate / correction1) * mean / (size.sqrt() / std::sqrt(correction2) + eps));
}

// Divides gradients by the loss scale and notes when one is not finite.
ACLNN(ForeachNonFiniteCheckAndUnscale, Tensors grads, Tensor found, Tensor inverse_scale) {
  for (const Tensor& grad : grads) {
    if (!at::isfinite(grad).all().item<bool>()) found.fill_(1);
    grad.mul_(inverse_scale.to(grad.scalar_type()));
  }
}
