// titan's own CUDA operators, in the dispatcher as titan::…: the kernels of device/cuda/kernels and
// products by cuBLASLt behind checks of shape and dtype. ops/cuda_ops.h calls them by schema.
#pragma once

#include <memory>

namespace titan::device::cuda {

class Operators;

// They are registered for as long as the result lives; null where the module was built without a
// CUDA compiler.
std::shared_ptr<Operators> register_operators();

}  // namespace titan::device::cuda
