#include "ops/matmul.h"

#include "base/platform.h"

namespace titan::ops {

at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b) {
  static const bool bfloat16_in_hardware = cpu_multiplies_bfloat16();
  const auto dtype = a.scalar_type();
  const bool narrow = dtype == at::kHalf || (dtype == at::kBFloat16 && !bfloat16_in_hardware);
  if (a.is_cpu() && narrow) return at::mm(a.to(at::kFloat), b.to(at::kFloat)).to(dtype);
  return at::mm(a, b);
}

}  // namespace titan::ops
