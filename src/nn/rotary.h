// The cos/sin tables of rotary position embeddings.
#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace titan::nn {

// Llama 3.1's change of the frequencies: wavelengths above original_max_positions / low_freq_factor
// are divided by `factor`, those below original_max_positions / high_freq_factor kept, those
// between interpolated linearly in frequency.
struct FrequencyScaling {
  double factor, low_freq_factor, high_freq_factor;
  int64_t original_max_positions;
};

struct RotaryTables {
  // [max_positions, head_dim/2], or as ops::rotary_table() lays them; float32 or float64.
  at::Tensor cos, sin;

  // Rows [begin, begin + count).
  RotaryTables narrow(int64_t begin, int64_t count) const {
    return {cos.narrow(0, begin, count), sin.narrow(0, begin, count)};
  }
  // Rows by position, positions [T] int64 -> tables of T rows.
  RotaryTables select(const at::Tensor& positions) const {
    return {cos.index_select(0, positions), sin.index_select(0, positions)};
  }
  // Rows by position, positions [B, T] int64 -> tables of [B, T] rows.
  RotaryTables gather(const at::Tensor& positions) const;
  // Rows of either kind of positions; undefined: [0, count).
  RotaryTables rows(const at::Tensor& positions, int64_t count) const;
};

// Frequencies theta^(-2i/head_dim) and angles in `dtype`: float32, as the published models were
// trained, or float64 for computations in float64.
RotaryTables make_rotary_tables(int64_t head_dim, int64_t max_positions, double theta,
                                const std::optional<FrequencyScaling>& scaling, at::Device device,
                                at::ScalarType dtype = at::kFloat);

}  // namespace titan::nn
