#include "ops/grouped_matmul.h"

#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "base/error.h"
#include "ops/npu_moe.h"
#include "ops/npu_ops.h"

namespace titan::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Group {
  int64_t expert, begin, end;
};

// The experts that have rows. The host reads `ends`, which waits for a device.
std::vector<Group> groups_of(const Tensor& ends, int64_t rows) {
  const Tensor on_host = ends.cpu().contiguous();
  const auto* end = on_host.const_data_ptr<int64_t>();
  std::vector<Group> groups;
  int64_t begin = 0;
  for (int64_t e = 0; e < on_host.numel(); ++e) {
    TITAN_CHECK(end[e] >= begin, "the rows of expert {} end at {}, before they begin", e, end[e]);
    if (end[e] > begin) groups.push_back({e, begin, end[e]});
    begin = end[e];
  }
  TITAN_CHECK(begin == rows, "{} of {} rows belong to an expert", begin, rows);
  return groups;
}

// x [rows, in] times w[e] [in, out] of each row's expert.
Tensor by_groups(const Tensor& x, const Tensor& w, const Tensor& ends) {
  if (x.size(0) == 0) return x.new_empty({0, w.size(2)});
  if (npu::is_npu(x)) return npu::product_by_groups(x, w, ends);
  const Tensor y = x.new_empty({x.size(0), w.size(2)});
  for (const auto& [expert, begin, end] : groups_of(ends, x.size(0))) {
    Tensor part = y.slice(0, begin, end);
    at::mm_out(part, x.slice(0, begin, end), w.select(0, expert));
  }
  return y;
}

// For each expert its rows of dy, transposed, times its rows of x: [experts, out, in].
Tensor of_groups(const Tensor& dy, const Tensor& x, const Tensor& ends) {
  const std::vector<int64_t> shape = {ends.numel(), dy.size(1), x.size(1)};
  if (x.size(0) == 0) return x.new_zeros(shape);
  if (npu::is_npu(x)) return npu::product_of_groups(dy, x, ends);
  const Tensor dw = x.new_zeros(shape);
  for (const auto& [expert, begin, end] : groups_of(ends, x.size(0))) {
    Tensor part = dw.select(0, expert);
    at::mm_out(part, dy.slice(0, begin, end).t(), x.slice(0, begin, end));
  }
  return dw;
}

struct GroupedMatmul : torch::autograd::Function<GroupedMatmul> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const Tensor& w_in,
                        const Tensor& ends) {
    // Strides that the chips' kernels know: of a matrix or of its transpose.
    const Tensor x = x_in.contiguous(), w = w_in.contiguous();
    ctx->save_for_backward({x, w, ends});
    return by_groups(x, w.transpose(1, 2), ends);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &w = saved[1], &ends = saved[2];
    const Tensor dy = grads[0].contiguous();
    Tensor dx, dw;
    if (ctx->needs_input_grad(0)) dx = by_groups(dy, w, ends);
    if (ctx->needs_input_grad(1)) dw = of_groups(dy, x, ends);
    return {dx, dw, Tensor()};
  }
};

}  // namespace

namespace reference {
Tensor grouped_matmul(const Tensor& x, const Tensor& w, const Tensor& ends) {
  const Tensor on_host = ends.cpu();
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (int64_t e = 0; e < w.size(0); ++e) {
    const int64_t end = on_host[e].item<int64_t>();
    parts.push_back(at::matmul(x.slice(0, begin, end), w[e].t()));
    begin = end;
  }
  return at::cat(parts, 0);
}
}  // namespace reference

Tensor grouped_matmul(const Tensor& x, const Tensor& w, const Tensor& ends) {
  TITAN_CHECK(x.dim() == 2 && w.dim() == 3 && x.size(1) == w.size(2),
              "rows of {} elements and experts of {} inputs", x.size(-1), w.size(-1));
  TITAN_CHECK(x.scalar_type() == w.scalar_type(), "rows in {} and experts in {}",
              c10::toString(x.scalar_type()), c10::toString(w.scalar_type()));
  TITAN_CHECK(ends.dim() == 1 && ends.size(0) == w.size(0) && ends.scalar_type() == at::kLong,
              "{} ends in {} for {} experts", ends.numel(), c10::toString(ends.scalar_type()),
              w.size(0));
  return GroupedMatmul::apply(x, w, ends);
}

}  // namespace titan::ops
