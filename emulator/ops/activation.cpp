// Less common functions of one element at a time, their in-place forms and gradients.
#include <ATen/ATen.h>

#include "ops/operator.h"

using namespace cannemu::ops;

#define UNARY(name, function) \
  ACLNN(name, Tensor x, Tensor out) { put(out, at::function(x)); }
UNARY(Acos, acos)
UNARY(Asin, asin)
UNARY(Cosh, cosh)
UNARY(Sinh, sinh)
UNARY(Erfc, erfc)
UNARY(IsPosInf, isposinf)
UNARY(IsNegInf, isneginf)
UNARY(Hardswish, hardswish)
UNARY(Mish, mish)
#define BINARY(name, function) \
  ACLNN(name, Tensor a, Tensor b, Tensor out) { put(out, at::function(a, b)); }
BINARY(XLogYTensor, xlogy)
BINARY(LogAddExp, logaddexp)
BINARY(FmodTensor, fmod)
ACLNN(FmodScalar, Tensor a, Scalar b, Tensor out) { put(out, at::fmod(a, b)); }
ACLNN(RemainderScalarTensor, Scalar a, Tensor b, Tensor out) { put(out, at::remainder(a, b)); }
ACLNN(BitwiseXorScalar, Tensor a, Scalar b, Tensor out) { put(out, at::bitwise_xor(a, b)); }
ACLNN(AddV3, Scalar a, Tensor b, Scalar alpha, Tensor out) {
  put(out, at::add(at::scalar_tensor(a, b.options()), b, alpha));
}
ACLNN(Rsub, Tensor a, Tensor b, Scalar alpha, Tensor out) { put(out, at::rsub(a, b, alpha)); }
ACLNN(IsClose, Tensor a, Tensor b, double relative, double absolute, bool equal_nan, Tensor out) {
  put(out, at::isclose(a, b, relative, absolute, equal_nan));
}
ACLNN(IsInTensorScalar, Tensor x, Scalar value, bool, bool invert, Tensor out) {
  put(out, invert ? at::ne(x, value) : at::eq(x, value));
}

#define INPLACE_BINARY(name, function) \
  ACLNN(Inplace##name, Tensor a, Tensor b) { put(a, at::function(a, b)); }
INPLACE_BINARY(LogicalAnd, logical_and)
INPLACE_BINARY(LogicalOr, logical_or)
INPLACE_BINARY(BitwiseAndTensor, bitwise_and)
INPLACE_BINARY(BitwiseXorTensor, bitwise_xor)
INPLACE_BINARY(PowTensorTensor, pow)
INPLACE_BINARY(FloorDivide, floor_divide)
INPLACE_BINARY(RemainderTensorTensor, remainder)
INPLACE_BINARY(ClampMaxTensor, clamp_max)
INPLACE_BINARY(ClampMinTensor, clamp_min)
ACLNN(InplaceFloorDivides, Tensor a, Scalar b) { put(a, at::floor_divide(a, b)); }
ACLNN(InplaceRemainderTensorScalar, Tensor a, Scalar b) { put(a, at::remainder(a, b)); }
ACLNN(InplaceNanToNum, Tensor x, float nan, float positive, float negative) {
  put(x, at::nan_to_num(x, nan, positive, negative));
}
ACLNN(InplaceMaskedScatter, Tensor x, Tensor mask, Tensor source) {
  x.copy_(at::masked_scatter(x, mask.to(at::kBool), source));
}

ACLNN(Softplus, Tensor x, Scalar beta, Scalar threshold, Tensor out) {
  put(out, at::softplus(x, beta, threshold));
}
ACLNN(SoftplusBackward, Tensor grad, Tensor x, Scalar beta, Scalar threshold, Tensor out) {
  put(out, at::softplus_backward(grad, x, beta, threshold));
}
ACLNN(Elu, Tensor x, Scalar alpha, Scalar scale, Scalar input_scale, Tensor out) {
  put(out, at::elu(x, alpha, scale, input_scale));
}
ACLNN(EluBackward, Tensor grad, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result,
      Tensor x, Tensor out) {
  put(out, at::elu_backward(grad, alpha, scale, input_scale, is_result, x));
}
ACLNN(LeakyRelu, Tensor x, Scalar slope, Tensor out) { put(out, at::leaky_relu(x, slope)); }
ACLNN(LeakyReluBackward, Tensor grad, Tensor x, Scalar slope, bool is_result, Tensor out) {
  put(out, at::leaky_relu_backward(grad, x, slope, is_result));
}
ACLNN(Hardtanh, Tensor x, Scalar low, Scalar high, Tensor out) {
  put(out, at::hardtanh(x, low, high));
}
ACLNN(HardswishBackwardV2, Tensor grad, Tensor x, Tensor out) {
  put(out, at::hardswish_backward(grad, x));
}
ACLNN(Glu, Tensor x, int64_t dim, Tensor out) { put(out, at::glu(x, dim)); }
ACLNN(GluBackward, Tensor grad, Tensor x, int64_t dim, Tensor out) {
  put(out, at::glu_backward(grad, x, dim));
}
// The buffer is the CPU kernel's; a chip's own content of it is not known, so the gradient is
// computed without it.
ACLNN(LogSigmoidForward, Tensor x, Tensor out, Tensor) { put(out, at::log_sigmoid(x)); }
ACLNN(LogSigmoidBackward, Tensor grad, Tensor x, Tensor, Tensor out) {
  put(out, grad * at::sigmoid(-x));
}

// Scaled softmax over keys; masked ones count as -10000, and with a fixed triangle those after the
// query.
ACLNN(ScaledMaskedSoftmax, Tensor x, Tensor mask, double scale, bool triangle, Tensor out) {
  const Tensor hidden =
      triangle ? at::triu(at::ones({x.size(-2), x.size(-1)}, at::kBool), 1) : mask.to(at::kBool);
  put(out, at::softmax((x.to(at::kFloat) * scale).masked_fill(hidden, -10000.0), -1));
}
ACLNN(ScaledMaskedSoftmaxBackward, Tensor grad, Tensor y, Tensor mask, double scale, bool triangle,
      Tensor out) {
  const Tensor hidden =
      triangle ? at::triu(at::ones({y.size(-2), y.size(-1)}, at::kBool), 1) : mask.to(at::kBool);
  const Tensor g =
      at::_softmax_backward_data(grad.to(at::kFloat), y.to(at::kFloat), -1, at::kFloat);
  put(out, (g * scale).masked_fill(hidden, 0.0));
}
