#include "device/health.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace titan::device {

std::optional<std::string> check_matrix_product(c10::Device device) {
  constexpr int64_t kSize = 256;
  const c10::InferenceMode no_grad;
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  const double sum =
      at::mm(at::ones({kSize, kSize}, options), at::full({kSize, kSize}, 0.5, options))
          .sum()
          .item<double>();
  constexpr double kExpected = 0.5 * kSize * kSize * kSize;
  if (sum == kExpected) return std::nullopt;
  return fmt::format("a matrix product gave {} instead of {}", sum, kExpected);
}

}  // namespace titan::device
