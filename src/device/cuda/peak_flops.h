// Dense bf16 rates of GPUs by the name the driver gives, as MFU divides by them.
#pragma once

#include <string_view>

#include "device/backend.h"

namespace titan::device::cuda {

// Never fails: an unknown name gets the A100's value, and the source says so.
PeakFlops peak_flops_of(std::string_view device_name);

}  // namespace titan::device::cuda
