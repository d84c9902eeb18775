// Operators of one element at a time: copies, arithmetic, comparisons, activations and their
// gradients.
#include <ATen/ATen.h>

#include "ops/operator.h"

using namespace cannemu::ops;

// ---- copies and fills ----
ACLNN(InplaceCopy, Tensor x, Tensor source) { x.copy_(source); }
ACLNN(Cast, Tensor x, ScalarType, Tensor out) { put(out, x.to(out.scalar_type())); }
ACLNN(InplaceZero, Tensor x) { x.zero_(); }
ACLNN(InplaceOne, Tensor x) { x.fill_(1); }
ACLNN(InplaceFillScalar, Tensor x, Scalar value) { x.fill_(value); }
ACLNN(InplaceFillTensor, Tensor x, Tensor value) { x.fill_(value.item()); }
ACLNN(InplaceMaskedFillScalar, Tensor x, Tensor mask, Scalar value) {
  x.masked_fill_(mask.to(at::kBool), value);
}
ACLNN(InplaceMaskedFillTensor, Tensor x, Tensor mask, Tensor value) {
  x.masked_fill_(mask.to(at::kBool), value.item());
}

// ---- functions of one tensor ----
#define UNARY(name, function) \
  ACLNN(name, Tensor x, Tensor out) { put(out, at::function(x)); }
#define UNARY_AND_INPLACE(name, function) \
  UNARY(name, function)                   \
  ACLNN(Inplace##name, Tensor x) { put(x, at::function(x)); }
UNARY(Abs, abs)
UNARY(Neg, neg)
UNARY_AND_INPLACE(Exp, exp)
UNARY_AND_INPLACE(Exp2, exp2)
UNARY_AND_INPLACE(Expm1, expm1)
UNARY_AND_INPLACE(Log, log)
UNARY_AND_INPLACE(Log2, log2)
UNARY_AND_INPLACE(Log10, log10)
UNARY_AND_INPLACE(Log1p, log1p)
UNARY_AND_INPLACE(Sqrt, sqrt)
UNARY_AND_INPLACE(Rsqrt, rsqrt)
UNARY_AND_INPLACE(Reciprocal, reciprocal)
UNARY_AND_INPLACE(Sin, sin)
UNARY_AND_INPLACE(Cos, cos)
UNARY_AND_INPLACE(Tan, tan)
UNARY_AND_INPLACE(Atan, atan)
UNARY_AND_INPLACE(Tanh, tanh)
UNARY_AND_INPLACE(Sigmoid, sigmoid)
UNARY_AND_INPLACE(Relu, relu)
UNARY_AND_INPLACE(Floor, floor)
UNARY(Ceil, ceil)
UNARY(Round, round)
UNARY(Trunc, trunc)
UNARY_AND_INPLACE(Erf, erf)
UNARY_AND_INPLACE(Erfinv, erfinv)
UNARY_AND_INPLACE(LogicalNot, logical_not)
UNARY(BitwiseNot, bitwise_not)
UNARY(Silu, silu)
UNARY(Gelu, gelu)
UNARY(IsFinite, isfinite)
UNARY(Sign, sign)
UNARY(Signbit, signbit)
ACLNN(GeluV2, Tensor x, int64_t approximate, Tensor out) {
  put(out, at::gelu(x, approximate == 1 ? "tanh" : "none"));
}
ACLNN(Logit, Tensor x, double eps, Tensor out) {
  put(out, at::logit(x, eps < 0 ? std::nullopt : std::optional<double>(eps)));
}
ACLNN(NanToNum, Tensor x, float nan, float positive, float negative, Tensor out) {
  put(out, at::nan_to_num(x, nan, positive, negative));
}

// ---- arithmetic; `alpha` multiplies the second operand ----
ACLNN(Add, Tensor a, Tensor b, Scalar alpha, Tensor out) { put(out, at::add(a, b, alpha)); }
ACLNN(Adds, Tensor a, Scalar b, Scalar alpha, Tensor out) { put(out, at::add(a, b, alpha)); }
ACLNN(InplaceAdd, Tensor a, Tensor b, Scalar alpha) { put(a, at::add(a, b, alpha)); }
ACLNN(InplaceAdds, Tensor a, Scalar b, Scalar alpha) { put(a, at::add(a, b, alpha)); }
ACLNN(Sub, Tensor a, Tensor b, Scalar alpha, Tensor out) { put(out, at::sub(a, b, alpha)); }
ACLNN(Subs, Tensor a, Scalar b, Scalar alpha, Tensor out) { put(out, at::sub(a, b, alpha)); }
ACLNN(InplaceSub, Tensor a, Tensor b, Scalar alpha) { put(a, at::sub(a, b, alpha)); }
ACLNN(InplaceSubs, Tensor a, Scalar b, Scalar alpha) { put(a, at::sub(a, b, alpha)); }
ACLNN(Rsubs, Tensor a, Scalar b, Scalar alpha, Tensor out) { put(out, at::rsub(a, b, alpha)); }
#define PRODUCT(name, function)                                                    \
  ACLNN(name, Tensor a, Tensor b, Tensor out) { put(out, at::function(a, b)); }    \
  ACLNN(name##s, Tensor a, Scalar b, Tensor out) { put(out, at::function(a, b)); } \
  ACLNN(Inplace##name, Tensor a, Tensor b) { put(a, at::function(a, b)); }         \
  ACLNN(Inplace##name##s, Tensor a, Scalar b) { put(a, at::function(a, b)); }
PRODUCT(Mul, mul)
PRODUCT(Div, div)
// A rounding mode is 0: none, 1: towards zero, 2: down.
static std::optional<std::string_view> rounding(int64_t mode) {
  if (mode == 0) return std::nullopt;
  return mode == 1 ? "trunc" : "floor";
}
ACLNN(DivMod, Tensor a, Tensor b, int64_t mode, Tensor out) {
  put(out, at::div(a, b, rounding(mode)));
}
ACLNN(DivMods, Tensor a, Scalar b, int64_t mode, Tensor out) {
  put(out, at::div(a, b, rounding(mode)));
}
ACLNN(FloorDivide, Tensor a, Tensor b, Tensor out) { put(out, at::floor_divide(a, b)); }
ACLNN(FloorDivides, Tensor a, Scalar b, Tensor out) { put(out, at::floor_divide(a, b)); }
ACLNN(RemainderTensorTensor, Tensor a, Tensor b, Tensor out) { put(out, at::remainder(a, b)); }
ACLNN(RemainderTensorScalar, Tensor a, Scalar b, Tensor out) { put(out, at::remainder(a, b)); }
ACLNN(PowTensorTensor, Tensor a, Tensor b, Tensor out) { put(out, at::pow(a, b)); }
ACLNN(PowTensorScalar, Tensor a, Scalar b, Tensor out) { put(out, at::pow(a, b)); }
ACLNN(PowScalarTensor, Scalar a, Tensor b, Tensor out) { put(out, at::pow(a, b)); }
ACLNN(InplacePowTensorScalar, Tensor a, Scalar b) { put(a, at::pow(a, b)); }
ACLNN(Addcmul, Tensor x, Tensor a, Tensor b, Scalar value, Tensor out) {
  put(out, at::addcmul(x, a, b, value));
}
ACLNN(Addcdiv, Tensor x, Tensor a, Tensor b, Scalar value, Tensor out) {
  put(out, at::addcdiv(x, a, b, value));
}
ACLNN(InplaceAddcmul, Tensor x, Tensor a, Tensor b, Scalar value) {
  put(x, at::addcmul(x, a, b, value));
}
ACLNN(InplaceAddcdiv, Tensor x, Tensor a, Tensor b, Scalar value) {
  put(x, at::addcdiv(x, a, b, value));
}
ACLNN(Lerp, Tensor a, Tensor end, Tensor weight, Tensor out) { put(out, at::lerp(a, end, weight)); }
ACLNN(Lerps, Tensor a, Tensor end, Scalar weight, Tensor out) {
  put(out, at::lerp(a, end, weight));
}
ACLNN(InplaceLerp, Tensor a, Tensor end, Tensor weight) { put(a, at::lerp(a, end, weight)); }
ACLNN(InplaceLerps, Tensor a, Tensor end, Scalar weight) { put(a, at::lerp(a, end, weight)); }
#define BINARY(name, function) \
  ACLNN(name, Tensor a, Tensor b, Tensor out) { put(out, at::function(a, b)); }
BINARY(Maximum, maximum)
BINARY(Minimum, minimum)
BINARY(Atan2, atan2)
BINARY(LogicalAnd, logical_and)
BINARY(LogicalOr, logical_or)
BINARY(LogicalXor, logical_xor)
BINARY(BitwiseAndTensor, bitwise_and)
BINARY(BitwiseOrTensor, bitwise_or)
BINARY(BitwiseXorTensor, bitwise_xor)
ACLNN(BitwiseAndScalar, Tensor a, Scalar b, Tensor out) { put(out, at::bitwise_and(a, b)); }
ACLNN(BitwiseOrScalar, Tensor a, Scalar b, Tensor out) { put(out, at::bitwise_or(a, b)); }

// ---- comparisons ----
#define COMPARISON(name, function)                                                      \
  ACLNN(name##Tensor, Tensor a, Tensor b, Tensor out) { put(out, at::function(a, b)); } \
  ACLNN(name##Scalar, Tensor a, Scalar b, Tensor out) { put(out, at::function(a, b)); } \
  ACLNN(Inplace##name##Tensor, Tensor a, Tensor b) { put(a, at::function(a, b)); }      \
  ACLNN(Inplace##name##Scalar, Tensor a, Scalar b) { put(a, at::function(a, b)); }
COMPARISON(Eq, eq)
COMPARISON(Ne, ne)
COMPARISON(Lt, lt)
COMPARISON(Gt, gt)
COMPARISON(Le, le)
COMPARISON(Ge, ge)
ACLNN(Equal, Tensor a, Tensor b, Tensor out) { out.fill_(at::equal(a, b)); }
ACLNN(SWhere, Tensor condition, Tensor a, Tensor b, Tensor out) {
  put(out, at::where(condition, a, b));
}
ACLNN(Clamp, Tensor x, OptionalScalar low, OptionalScalar high, Tensor out) {
  put(out, at::clamp(x, low, high));
}
ACLNN(ClampMin, Tensor x, Scalar low, Tensor out) { put(out, at::clamp_min(x, low)); }
ACLNN(ClampMax, Tensor x, Scalar high, Tensor out) { put(out, at::clamp_max(x, high)); }
ACLNN(InplaceClampMax, Tensor x, Scalar high) { put(x, at::clamp_max(x, high)); }
ACLNN(ClampTensor, Tensor x, Tensor low, Tensor high, Tensor out) {
  put(out, at::clamp(x, low, high));
}
ACLNN(ClampMinTensor, Tensor x, Tensor low, Tensor out) { put(out, at::clamp_min(x, low)); }
ACLNN(ClampMaxTensor, Tensor x, Tensor high, Tensor out) { put(out, at::clamp_max(x, high)); }

// ---- gradients of activations ----
ACLNN(SiluBackward, Tensor grad, Tensor x, Tensor out) { put(out, at::silu_backward(grad, x)); }
ACLNN(SigmoidBackward, Tensor grad, Tensor y, Tensor out) {
  put(out, at::sigmoid_backward(grad, y));
}
ACLNN(TanhBackward, Tensor grad, Tensor y, Tensor out) { put(out, at::tanh_backward(grad, y)); }
ACLNN(GeluBackward, Tensor grad, Tensor x, Tensor out) { put(out, at::gelu_backward(grad, x)); }
ACLNN(GeluBackwardV2, Tensor grad, Tensor x, Text approximate, Tensor out) {
  put(out, at::gelu_backward(grad, x, approximate));
}
ACLNN(ThresholdBackward, Tensor grad, Tensor x, Scalar threshold, Tensor out) {
  put(out, at::threshold_backward(grad, x, threshold));
}
// The gate is the half that goes through SiLU; in float32 whatever the type.
ACLNN(SwiGlu, Tensor x, int64_t dim, Tensor out) {
  const auto half = x.to(at::kFloat).chunk(2, dim);
  put(out, at::silu(half[0]) * half[1]);
}
ACLNN(SwiGluGrad, Tensor grad, Tensor x, int64_t dim, Tensor out) {
  const auto half = x.to(at::kFloat).chunk(2, dim);
  const Tensor g = grad.to(at::kFloat);
  put(out, at::cat({at::silu_backward(g * half[1], half[0]), g * at::silu(half[0])}, dim));
}
