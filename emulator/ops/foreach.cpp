// One function over a list of tensors. A scalar comes as a tensor in the first version of an
// operator (ForeachAddScalar) and as a scalar in the second (ForeachAddScalarV2); a list of scalars
// is always one.
#include <ATen/ATen.h>

#include "ops/operator.h"

using namespace cannemu::ops;

template <class Function>
static void each(const Tensors& out, Function function) {
  for (size_t at = 0; at < out.size(); ++at) put(out[at], function(at));
}

#define FOREACH(name, function)                                \
  ACLNN(Foreach##name, Tensors x, Tensors out) {               \
    each(out, [&](size_t at) { return at::function(x[at]); }); \
  }
FOREACH(Copy, alias)
FOREACH(Abs, abs)
FOREACH(Neg, neg)
FOREACH(Exp, exp)
FOREACH(Expm1, expm1)
FOREACH(Log, log)
FOREACH(Sqrt, sqrt)
FOREACH(Reciprocal, reciprocal)
FOREACH(Sign, sign)
FOREACH(Sigmoid, sigmoid)
FOREACH(Tanh, tanh)
ACLNN(ForeachZeroInplace, Tensors x) {
  for (const Tensor& tensor : x) tensor.zero_();
}
ACLNN(ForeachNorm, Tensors x, Scalar order, Tensors out) {
  each(out, [&](size_t at) { return at::linalg_vector_norm(x[at], order); });
}

#define FOREACH_SCALAR(name, function)                                        \
  ACLNN(Foreach##name##Scalar, Tensors x, Tensor scalar, Tensors out) {       \
    each(out, [&](size_t at) { return at::function(x[at], scalar.item()); }); \
  }                                                                           \
  ACLNN(Foreach##name##ScalarV2, Tensors x, Scalar scalar, Tensors out) {     \
    each(out, [&](size_t at) { return at::function(x[at], scalar); });        \
  }                                                                           \
  ACLNN(Foreach##name##ScalarList, Tensors x, Scalars scalars, Tensors out) { \
    each(out, [&](size_t at) { return at::function(x[at], scalars[at]); });   \
  }
FOREACH_SCALAR(Add, add)
FOREACH_SCALAR(Sub, sub)
FOREACH_SCALAR(Mul, mul)
FOREACH_SCALAR(Div, div)
FOREACH_SCALAR(Pow, pow)
FOREACH_SCALAR(Maximum, clamp_min)
FOREACH_SCALAR(Minimum, clamp_max)

#define FOREACH_LIST(name, function)                                  \
  ACLNN(Foreach##name##List, Tensors x, Tensors y, Tensors out) {     \
    each(out, [&](size_t at) { return at::function(x[at], y[at]); }); \
  }
FOREACH_LIST(Mul, mul)
FOREACH_LIST(Div, div)
FOREACH_LIST(Pow, pow)
FOREACH_LIST(Maximum, maximum)
FOREACH_LIST(Minimum, minimum)
ACLNN(ForeachAddListV2, Tensors x, Tensors y, Scalar alpha, Tensors out) {
  each(out, [&](size_t at) { return at::add(x[at], y[at], alpha); });
}
ACLNN(ForeachSubListV2, Tensors x, Tensors y, Scalar alpha, Tensors out) {
  each(out, [&](size_t at) { return at::sub(x[at], y[at], alpha); });
}
// The exception: its scalar is a scalar although the name has no V2.
ACLNN(ForeachLerpScalar, Tensors x, Tensors y, Scalar weight, Tensors out) {
  each(out, [&](size_t at) { return at::lerp(x[at], y[at], weight); });
}
ACLNN(ForeachLerpList, Tensors x, Tensors y, Tensors weight, Tensors out) {
  each(out, [&](size_t at) { return at::lerp(x[at], y[at], weight[at]); });
}

#define FOREACH_PRODUCT(name, function)                                                            \
  ACLNN(Foreach##name##Scalar, Tensors x, Tensors y, Tensors z, Tensor value, Tensors out) {       \
    each(out, [&](size_t at) { return at::function(x[at], y[at], z[at], value.item()); });         \
  }                                                                                                \
  ACLNN(Foreach##name##ScalarV2, Tensors x, Tensors y, Tensors z, Scalar value, Tensors out) {     \
    each(out, [&](size_t at) { return at::function(x[at], y[at], z[at], value); });                \
  }                                                                                                \
  ACLNN(Foreach##name##ScalarList, Tensors x, Tensors y, Tensors z, Scalars values, Tensors out) { \
    each(out, [&](size_t at) { return at::function(x[at], y[at], z[at], values[at]); });           \
  }
FOREACH_PRODUCT(Addcmul, addcmul)
FOREACH_PRODUCT(Addcdiv, addcdiv)
