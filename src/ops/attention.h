// Scaled dot-product attention (Vaswani et al. 2017, arXiv 1706.03762, eq. 1), causal, with grouped
// key/value heads (Ainslie et al. 2023, arXiv 2305.13245). libtorch picks the kernel: flash on the
// CPU, cuDNN or flash on a GPU.
#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace titan::ops {

// q [B, H, T, D], k and v [B, K, S, D] with H a multiple of K -> [B, H, T, D]; scale 1/sqrt(D).
// Without `mask`, position i sees 0..i (T == S), or everything when T == 1. `mask` [B or 1, 1, T,
// S], bool, true = visible, replaces causality.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& mask = std::nullopt);

namespace reference {
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& mask = std::nullopt);
}

}  // namespace titan::ops
