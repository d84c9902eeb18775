// The one place that may ask which libtorch this is compiled against (2.9, 2.10 and 2.11 are
// supported). Whatever differs between them gets a name here that code elsewhere can use without a
// conditional.
#pragma once

// The header moved in 2.10.
#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#else
#include <torch/version.h>
#endif

namespace titan::device {

// 209, 210, 211, …
inline constexpr int kTorchVersion = 100 * TORCH_VERSION_MAJOR + TORCH_VERSION_MINOR;
static_assert(kTorchVersion >= 209, "titan needs libtorch 2.9 or newer");

// The variable that libtorch's CUDA allocator reads its settings from: 2.9 knows only the older
// name.
inline constexpr const char* kCudaAllocatorVariable =
    kTorchVersion >= 210 ? "PYTORCH_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";

}  // namespace titan::device
