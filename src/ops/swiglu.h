// The gate of a SwiGLU feed-forward part (Shazeer 2020, arXiv 2002.05202): silu(gate) * up. Saves
// its two inputs only.
#pragma once

#include <ATen/ATen.h>

namespace titan::ops {

// gate and up of one shape and dtype.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

namespace reference {
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
}

}  // namespace titan::ops
