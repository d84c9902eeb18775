// What every kind of device is asked to compute before it is called healthy.
#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>

namespace titan::device {

// A float32 matrix product whose sum is known exactly. nullopt: right; else one line with what came
// out. Waits for the device.
std::optional<std::string> check_matrix_product(c10::Device device);

}  // namespace titan::device
