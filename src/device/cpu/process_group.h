// Gloo: process groups for CPU tensors. Every device has one for its host side too.
#pragma once

#include "device/backend.h"

namespace titan::device {

// See Backend::make_process_group.
c10::intrusive_ptr<c10d::Backend> make_gloo_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const ProcessGroupOptions& options);

}  // namespace titan::device
