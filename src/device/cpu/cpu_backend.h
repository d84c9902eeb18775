// The CPU as a device: always there, no streams, memory is the process's.
#pragma once

#include <memory>

#include "device/backend.h"

namespace titan::device {

std::unique_ptr<Backend> open_cpu_backend();

}  // namespace titan::device
