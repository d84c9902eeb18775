#include "ops/stack_rows.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace titan::ops {

using at::Tensor;

Tensor stack_rows(const std::vector<Tensor>& parts) {
  const at::NoGradGuard no_grad;
  int64_t rows = 0, next = parts[0].storage_offset();
  for (const auto& part : parts) {
    if (!part.is_contiguous() || !part.is_alias_of(parts[0]) || part.storage_offset() != next) {
      return at::cat(parts);
    }
    next += part.numel();
    rows += part.size(0);
  }
  // A tensor of its own in autograd's eyes, no view.
  const int64_t columns = parts[0].size(1);
  return at::empty({0}, parts[0].options())
      .set_(parts[0].storage(), parts[0].storage_offset(), {rows, columns}, {columns, 1});
}

at::ScalarType gradient_dtype(const Tensor& x) {
  if (!x.requires_grad() || !at::GradMode::is_enabled()) return x.scalar_type();
  const auto edge = torch::autograd::impl::gradient_edge(x);
  if (!edge.function) return x.scalar_type();
  return c10::typeMetaToScalarType(edge.function->input_metadata(edge.input_nr).options().dtype());
}

}  // namespace titan::ops
