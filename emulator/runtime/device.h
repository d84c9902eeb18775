// The device that a thread works on.
#pragma once

namespace cannemu {

int current_device();
void set_current_device(int device);

}  // namespace cannemu
