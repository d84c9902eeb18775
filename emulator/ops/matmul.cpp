// Matrix products. The last argument chooses a chip's internal precision and has no meaning here.
#include <ATen/ATen.h>

#include "ops/operator.h"

using namespace cannemu::ops;

ACLNN(Matmul, Tensor a, Tensor b, Tensor out, int8_t) { put(out, at::matmul(a, b)); }
ACLNN(Mm, Tensor a, Tensor b, Tensor out, int8_t) { put(out, at::mm(a, b)); }
ACLNN(Mv, Tensor a, Tensor b, Tensor out, int8_t) { put(out, at::mv(a, b)); }
ACLNN(Dot, Tensor a, Tensor b, Tensor out) { put(out, at::dot(a, b)); }
ACLNN(BatchMatMul, Tensor a, Tensor b, Tensor out, int8_t) { put(out, at::bmm(a, b)); }
ACLNN(Addmm, Tensor c, Tensor a, Tensor b, Scalar beta, Scalar alpha, Tensor out, int8_t) {
  put(out, at::addmm(c, a, b, beta, alpha));
}
ACLNN(InplaceAddmm, Tensor c, Tensor a, Tensor b, Scalar beta, Scalar alpha, int8_t) {
  put(c, at::addmm(c, a, b, beta, alpha));
}
ACLNN(Addbmm, Tensor c, Tensor a, Tensor b, Scalar beta, Scalar alpha, Tensor out, int8_t) {
  put(out, at::addbmm(c, a, b, beta, alpha));
}
ACLNN(Baddbmm, Tensor c, Tensor a, Tensor b, Scalar beta, Scalar alpha, Tensor out, int8_t) {
  put(out, at::baddbmm(c, a, b, beta, alpha));
}

// One tensor of rows, split into groups, times one stack of weights [groups, k, n]. `group_list`
// holds the ends of the groups (type 0) or their sizes (type 1). Group type 0 splits the rows; 2
// splits the summed dim: out[g] = x[:, g] @ weight[g, :]. Rows after the last group are zero.
// Quantised and multi-tensor forms are refused.
ACLNN(GroupedMatmulV5, Tensors x, Tensors weight, Tensors bias, Tensors scale, Tensors offset,
      Tensors antiquant_scale, Tensors antiquant_offset, Tensors per_token_scale, Tensor group_list,
      Tensors activation_input, Tensors activation_scale, Tensors activation_offset, int64_t,
      int64_t group_type, int64_t group_list_type, int64_t activation, Ints, Tensors out, Tensors,
      Tensors) {
  TORCH_CHECK(x.size() == 1 && weight.size() == 1 && out.size() == 1 && scale.empty() &&
                  offset.empty() && antiquant_scale.empty() && per_token_scale.empty() &&
                  bias.empty() && activation == 0 && group_list.defined() &&
                  (group_list_type == 0 || group_list_type == 1) &&
                  (group_type == 0 || group_type == 2),
              "this form of grouped matmul is not emulated");
  Tensor ends = group_list.to(at::kLong).contiguous();
  if (group_list_type == 1) ends = ends.cumsum(0);
  int64_t begin = 0;
  for (int64_t group = 0; group < ends.numel(); ++group) {
    const int64_t end = ends.const_data_ptr<int64_t>()[group];
    if (group_type == 0) {
      out[0].slice(0, begin, end).copy_(at::matmul(x[0].slice(0, begin, end), weight[0][group]));
    } else {
      out[0][group].copy_(at::matmul(x[0].slice(1, begin, end), weight[0].slice(0, begin, end)));
    }
    begin = end;
  }
  if (group_type == 0) out[0].slice(0, begin).zero_();
}

// out[g] += x[group g of rows]^T @ y[the same rows]; the groups' ends are given.
ACLNN(GroupedMatmulAdd, Tensor x, Tensor y, Tensor ends, Tensor out, bool, bool,
      int64_t group_type) {
  TORCH_CHECK(group_type == 2, "this form of grouped matmul is not emulated");
  const Tensor last = ends.to(at::kLong).contiguous();
  const Tensor stack = out.view({last.numel(), -1, out.size(-1)});
  int64_t begin = 0;
  for (int64_t group = 0; group < last.numel(); ++group) {
    const int64_t end = last.const_data_ptr<int64_t>()[group];
    const Tensor rows = x.slice(0, begin, end).to(at::kFloat);
    stack[group].add_(
        at::mm(rows.t(), y.slice(0, begin, end).to(at::kFloat)).to(out.scalar_type()));
    begin = end;
  }
}
