// Reductions, scans, orders and softmax. An empty list of dims is all of them.
#include <ATen/ATen.h>

#include "ops/operator.h"

using namespace cannemu::ops;

static at::OptionalIntArrayRef dims_or_all(const Ints& dims) {
  return dims.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(dims);
}

ACLNN(ReduceSum, Tensor x, Ints dims, bool keep, ScalarType type, Tensor out) {
  put(out, at::sum(x, dims, keep, type));
}
ACLNN(Mean, Tensor x, Ints dims, bool keep, ScalarType type, Tensor out) {
  put(out, at::mean(x, dims, keep, type));
}
ACLNN(Prod, Tensor x, ScalarType type, Tensor out) { put(out, at::prod(x, type)); }
ACLNN(ProdDim, Tensor x, int64_t dim, bool keep, ScalarType type, Tensor out) {
  put(out, at::prod(x, dim, keep, type));
}
ACLNN(Max, Tensor x, Tensor out) { put(out, at::max(x)); }
ACLNN(Min, Tensor x, Tensor out) { put(out, at::min(x)); }
ACLNN(Amax, Tensor x, Ints dims, bool keep, Tensor out) { put(out, at::amax(x, dims, keep)); }
ACLNN(Amin, Tensor x, Ints dims, bool keep, Tensor out) { put(out, at::amin(x, dims, keep)); }
ACLNN(All, Tensor x, Ints dims, bool keep, Tensor out) {
  put(out, dims.empty() ? at::all(x) : at::all(x, dims, keep));
}
ACLNN(Any, Tensor x, Ints dims, bool keep, Tensor out) {
  put(out, dims.empty() ? at::any(x) : at::any(x, dims, keep));
}
ACLNN(ArgMax, Tensor x, int64_t dim, bool keep, Tensor out) { put(out, at::argmax(x, dim, keep)); }
ACLNN(ArgMin, Tensor x, int64_t dim, bool keep, Tensor out) { put(out, at::argmin(x, dim, keep)); }
ACLNN(MaxDim, Tensor x, int64_t dim, bool keep, Tensor values, Tensor indices) {
  const auto [value, index] = at::max(x, dim, keep);
  put(values, value);
  put(indices, index);
}
ACLNN(MinDim, Tensor x, int64_t dim, bool keep, Tensor values, Tensor indices) {
  const auto [value, index] = at::min(x, dim, keep);
  put(values, value);
  put(indices, index);
}
ACLNN(VarCorrection, Tensor x, Ints dims, int64_t correction, bool keep, Tensor out) {
  put(out, at::var(x, dims_or_all(dims), Scalar(correction), keep));
}
ACLNN(Std, Tensor x, Ints dims, int64_t correction, bool keep, Tensor out) {
  put(out, at::std(x, dims_or_all(dims), Scalar(correction), keep));
}
ACLNN(Norm, Tensor x, Scalar order, Ints dims, bool keep, Tensor out) {
  put(out, dims.empty() ? at::norm(x, order) : at::norm(x, order, dims, keep));
}
ACLNN(LinalgVectorNorm, Tensor x, Scalar order, Ints dims, bool keep, ScalarType type, Tensor out) {
  put(out, at::linalg_vector_norm(x, order, dims_or_all(dims), keep, type));
}
ACLNN(LogSumExp, Tensor x, Ints dims, bool keep, Tensor out) {
  put(out, at::logsumexp(x, dims, keep));
}
ACLNN(Cumsum, Tensor x, int64_t dim, ScalarType type, Tensor out) {
  put(out, at::cumsum(x, dim, type));
}
ACLNN(Cumprod, Tensor x, Scalar dim, ScalarType type, Tensor out) {
  put(out, at::cumprod(x, dim.toLong(), type));
}
ACLNN(Bincount, Tensor x, Tensor weights, int64_t least, Tensor out) {
  put(out, at::bincount(x, weights.defined() ? std::optional(weights) : std::nullopt, least));
}
ACLNN(Histc, Tensor x, int64_t bins, Scalar low, Scalar high, Tensor out) {
  put(out, at::histc(x, bins, low, high));
}
ACLNN(Topk, Tensor x, int64_t k, int64_t dim, bool largest, bool sorted, Tensor values,
      Tensor indices) {
  const auto [value, index] = at::topk(x, k, dim, largest, sorted);
  put(values, value);
  put(indices, index);
}
ACLNN(Sort, Tensor x, bool stable, int64_t dim, bool descending, Tensor values, Tensor indices) {
  const auto [value, index] = at::sort(x, stable, dim, descending);
  put(values, value);
  put(indices, index);
}

ACLNN(Softmax, Tensor x, int64_t dim, Tensor out) {
  put(out, at::softmax(x.to(out.scalar_type()), dim));
}
ACLNN(SoftmaxBackward, Tensor grad, Tensor y, int64_t dim, Tensor out) {
  put(out, at::_softmax_backward_data(grad, y, dim, grad.scalar_type()));
}
ACLNN(LogSoftmax, Tensor x, int64_t dim, Tensor out) {
  put(out, at::log_softmax(x.to(out.scalar_type()), dim));
}
ACLNN(LogSoftmaxBackward, Tensor grad, Tensor y, int64_t dim, Tensor out) {
  put(out, at::_log_softmax_backward_data(grad, y, dim, grad.scalar_type()));
}
