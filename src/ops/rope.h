// Rotary position embedding (Su et al. 2021, arXiv 2104.09864, eq. 34). The gradient is the
// rotation by the opposite angle, so nothing but the tables is saved.
#pragma once

#include <ATen/ATen.h>

namespace titan::ops {

// x [B, T, H, D]; cos and sin [T, D/2] or [B, T, D/2], float32 (float64 for float64 x); on an NPU
// also [T, D] or [B, T, D], as rotary_table() makes them.
// interleaved: pairs (0,1), (2,3), … (Llama); else pairs (i, i + D/2) (Qwen). Computed in float32
// or wider, returned in x's dtype.
at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                bool interleaved);

// A table [T, D/2] of the host as rope() on `device` reads it fastest: on an NPU [T, D] with an
// angle per element, elsewhere as it is.
at::Tensor rotary_table(const at::Tensor& table, bool interleaved, at::Device device);

namespace reference {
at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                bool interleaved);
}

}  // namespace titan::ops
