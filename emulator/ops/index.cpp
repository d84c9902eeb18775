// Look-ups by index and their transposes, and results whose size depends on the values.
#include <ATen/ATen.h>

#include "ops/operator.h"

using namespace cannemu::ops;

static c10::List<std::optional<Tensor>> index_list(const Tensors& indices) {
  c10::List<std::optional<Tensor>> list;
  for (const Tensor& index : indices)
    list.push_back(present(index) ? std::optional(index) : std::nullopt);
  return list;
}

ACLNN(Embedding, Tensor weight, Tensor ids, Tensor out) { put(out, at::embedding(weight, ids)); }
ACLNN(EmbeddingDenseBackward, Tensor grad, Tensor ids, int64_t rows, int64_t padding,
      bool by_frequency, Tensor out) {
  put(out, at::embedding_dense_backward(grad, ids, rows, padding, by_frequency));
}
ACLNN(Gather, Tensor x, int64_t dim, Tensor index, Tensor out) {
  put(out, at::gather(x, dim, index));
}
ACLNN(IndexSelect, Tensor x, int64_t dim, Tensor index, Tensor out) {
  put(out, at::index_select(x, dim, index));
}
ACLNN(Index, Tensor x, Tensors indices, Tensor out) { put(out, at::index(x, index_list(indices))); }
ACLNN(IndexPutImpl, Tensor x, Tensors indices, Tensor values, bool accumulate, bool) {
  x.copy_(at::index_put(x, index_list(indices), values, accumulate));
}
ACLNN(IndexAdd, Tensor x, int64_t dim, Tensor index, Tensor source, Scalar alpha, Tensor out) {
  put(out, at::index_add(x, dim, index, source, alpha));
}
ACLNN(InplaceIndexCopy, Tensor x, int64_t dim, Tensor index, Tensor source) {
  x.copy_(at::index_copy(x, dim, index.to(at::kLong), source));
}
ACLNN(ScatterAdd, Tensor x, int64_t dim, Tensor index, Tensor source, Tensor out) {
  put(out, at::scatter_add(x, dim, index, source));
}
static void no_reduction(int64_t reduce) {
  TORCH_CHECK(reduce == 0, "scatter with a reduction is not emulated");
}
ACLNN(Scatter, Tensor x, int64_t dim, Tensor index, Tensor source, int64_t reduce, Tensor out) {
  no_reduction(reduce);
  put(out, at::scatter(x, dim, index, source));
}
ACLNN(ScatterValue, Tensor x, int64_t dim, Tensor index, Scalar value, int64_t reduce, Tensor out) {
  no_reduction(reduce);
  put(out, at::scatter(x, dim, index, value));
}
ACLNN(InplaceScatter, Tensor x, int64_t dim, Tensor index, Tensor source, int64_t reduce) {
  no_reduction(reduce);
  x.copy_(at::scatter(x, dim, index, source));
}
ACLNN(InplaceScatterValue, Tensor x, int64_t dim, Tensor index, Scalar value, int64_t reduce) {
  no_reduction(reduce);
  x.copy_(at::scatter(x, dim, index, value));
}
ACLNN(OneHot, Tensor x, int64_t classes, Tensor on, Tensor off, int64_t axis, Tensor out) {
  TORCH_CHECK(axis == -1, "one-hot over another axis than the last is not emulated");
  put(out, at::where(at::one_hot(x.to(at::kLong), classes).to(at::kBool), on, off));
}
ACLNN(SearchSorted, Tensor sorted, Tensor x, bool as_int32, bool right, Tensor order, Tensor out) {
  put(out, at::searchsorted(sorted, x, as_int32, right, std::nullopt,
                            present(order) ? std::optional(order) : std::nullopt));
}

ACLNN(Nonzero, Tensor x, Result out) { put_sized(out, at::nonzero(x)); }
ACLNN(NonzeroV2, Tensor x, Result out) { put_sized(out, at::nonzero(x).t().contiguous()); }
ACLNN(MaskedSelect, Tensor x, Tensor mask, Result out) {
  put_sized(out, at::masked_select(x, mask.to(at::kBool)));
}
ACLNN(Unique2, Tensor x, bool sorted, bool inverse, bool counts, Result y, Result y_inverse,
      Result y_counts) {
  const auto [values, positions, numbers] = at::_unique2(x, sorted, inverse, counts);
  put_sized(y, values);
  if (inverse) put_sized(y_inverse, positions);
  if (counts) put_sized(y_counts, numbers);
}

ACLNN(IndexCopy, Tensor x, int64_t dim, Tensor index, Tensor source, Tensor out) {
  put(out, at::index_copy(x, dim, index.to(at::kLong), source));
}
ACLNN(IndexFill, Tensor x, int64_t dim, Tensor index, Scalar value, Tensor out) {
  put(out, at::index_fill(x, dim, index.to(at::kLong), value));
}
ACLNN(InplaceIndexFill, Tensor x, int64_t dim, Tensor index, Scalar value) {
  x.copy_(at::index_fill(x, dim, index.to(at::kLong), value));
}
ACLNN(Take, Tensor x, Tensor index, Tensor out) { put(out, at::take(x, index)); }
ACLNN(Trace, Tensor x, Tensor out) { put(out, at::trace(x)); }
