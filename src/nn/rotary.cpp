#include "nn/rotary.h"

#include <numbers>

namespace titan::nn {
namespace {

at::Tensor scale_frequencies(const at::Tensor& frequencies, const FrequencyScaling& s) {
  const at::Tensor wavelength = 2 * std::numbers::pi / frequencies;
  const auto original = static_cast<double>(s.original_max_positions);
  const at::Tensor smooth =
      (original / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  const at::Tensor between = (1 - smooth) * frequencies / s.factor + smooth * frequencies;
  const at::Tensor scaled =
      at::where(wavelength > original / s.low_freq_factor, frequencies / s.factor, frequencies);
  const at::Tensor in_between = (wavelength <= original / s.low_freq_factor)
                                    .logical_and(wavelength >= original / s.high_freq_factor);
  return at::where(in_between, between, scaled);
}

}  // namespace

RotaryTables RotaryTables::gather(const at::Tensor& positions) const {
  const auto rows = [&](const at::Tensor& table) {
    return table.index_select(0, positions.flatten())
        .view({positions.size(0), positions.size(1), table.size(1)});
  };
  return {rows(cos), rows(sin)};
}

RotaryTables RotaryTables::rows(const at::Tensor& positions, int64_t count) const {
  if (!positions.defined()) return narrow(0, count);
  return positions.dim() == 1 ? select(positions) : gather(positions);
}

RotaryTables make_rotary_tables(int64_t head_dim, int64_t max_positions, double theta,
                                const std::optional<FrequencyScaling>& scaling, at::Device device,
                                at::ScalarType dtype) {
  const at::Tensor exponents =
      at::arange(0, head_dim, 2, dtype).narrow(0, 0, head_dim / 2) / head_dim;
  at::Tensor frequencies = 1.0 / at::pow(at::Scalar(theta), exponents);
  if (scaling) frequencies = scale_frequencies(frequencies, *scaling);
  const at::Tensor angles = at::outer(at::arange(max_positions, dtype), frequencies);
  return {angles.cos().to(device), angles.sin().to(device)};
}

}  // namespace titan::nn
