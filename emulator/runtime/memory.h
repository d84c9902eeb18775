// Device memory is host memory with an owner and a limit.
#pragma once

#include <cstddef>

namespace cannemu {

size_t peak_bytes();  // most that all devices of this process held together

}  // namespace cannemu
