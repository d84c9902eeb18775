#include "ops/stack_rows.h"

#include <torch/csrc/autograd/custom_function.h>

namespace titan::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The memory of all of them, or undefined.
Tensor in_place(at::TensorList parts) {
  int64_t rows = 0, next = parts[0].storage_offset();
  for (const auto& part : parts) {
    if (!part.is_contiguous() || !part.is_alias_of(parts[0]) || part.storage_offset() != next) {
      return {};
    }
    next += part.numel();
    rows += part.size(0);
  }
  // No view in autograd's eyes: the gradient is this function's.
  const int64_t columns = parts[0].size(1);
  return at::empty({0}, parts[0].options())
      .set_(parts[0].storage(), parts[0].storage_offset(), {rows, columns}, {columns, 1});
}

struct StackRows : torch::autograd::Function<StackRows> {
  static Tensor forward(AutogradContext* ctx, at::TensorList parts) {
    std::vector<int64_t> rows;
    for (const auto& part : parts) rows.push_back(part.size(0));
    ctx->saved_data["rows"] = rows;
    const Tensor whole = in_place(parts);
    return whole.defined() ? whole : at::cat(parts);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    variable_list result;
    int64_t begin = 0;
    for (const int64_t rows : ctx->saved_data["rows"].toIntVector()) {
      result.push_back(grads[0].narrow(0, begin, rows));
      begin += rows;
    }
    return result;
  }
};

}  // namespace

Tensor stack_rows(const std::vector<Tensor>& parts) {
  return StackRows::apply(at::TensorList(parts));
}

}  // namespace titan::ops
