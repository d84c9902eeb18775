// Operators that move elements or make them from their position.
#include <ATen/ATen.h>

#include "ops/operator.h"

using namespace cannemu::ops;

ACLNN(Triu, Tensor x, int64_t diagonal, Tensor out) { put(out, at::triu(x, diagonal)); }
ACLNN(Tril, Tensor x, int64_t diagonal, Tensor out) { put(out, at::tril(x, diagonal)); }
ACLNN(InplaceTriu, Tensor x, int64_t diagonal) { put(x, at::triu(x, diagonal)); }
ACLNN(InplaceTril, Tensor x, int64_t diagonal) { put(x, at::tril(x, diagonal)); }
ACLNN(Stack, Tensors x, int64_t dim, Tensor out) { put(out, at::stack(x, dim)); }
ACLNN(Cat, Tensors x, int64_t dim, Tensor out) { put(out, at::cat(x, dim)); }
ACLNN(ChunkCat, Tensors x, int64_t dim, int64_t chunks, Tensor out) {
  put(out, at::_chunk_cat(x, dim, chunks));
}
ACLNN(SplitWithSize, Tensor x, Ints sizes, int64_t dim, Tensors out) {
  put(out, at::split_with_sizes(x, sizes, dim));
}
ACLNN(Repeat, Tensor x, Ints times, Tensor out) { put(out, x.repeat(times)); }
ACLNN(RepeatInterleaveInt, Tensor x, int64_t times, int64_t, Tensor out) {
  put(out, at::repeat_interleave(x, times));
}
ACLNN(RepeatInterleaveIntWithDim, Tensor x, int64_t times, int64_t dim, int64_t, Tensor out) {
  put(out, at::repeat_interleave(x, times, dim));
}
ACLNN(RepeatInterleave, Tensor x, Tensor times, int64_t, Tensor out) {
  put(out, at::repeat_interleave(x, times));
}
ACLNN(RepeatInterleaveWithDim, Tensor x, Tensor times, int64_t dim, int64_t, Tensor out) {
  put(out, at::repeat_interleave(x, times, dim));
}
ACLNN(Flip, Tensor x, Ints dims, Tensor out) { put(out, at::flip(x, dims)); }
ACLNN(Roll, Tensor x, Ints shifts, Ints dims, Tensor out) { put(out, at::roll(x, shifts, dims)); }
ACLNN(ConstantPadNd, Tensor x, Ints pad, Scalar value, Tensor out) {
  put(out, at::constant_pad_nd(x, pad, value));
}
ACLNN(Arange, Scalar begin, Scalar end, Scalar step, Tensor out) {
  put(out, at::arange(begin, end, step, out.options()));
}
ACLNN(Range, Scalar begin, Scalar end, Scalar step, Tensor out) {
  put(out, at::range(begin, end, step, out.options()));
}
ACLNN(Linspace, Scalar begin, Scalar end, int64_t steps, Tensor out) {
  put(out, at::linspace(begin, end, steps, out.options()));
}
ACLNN(Eye, int64_t rows, int64_t columns, Tensor out) {
  put(out, at::eye(rows, columns, out.options()));
}
