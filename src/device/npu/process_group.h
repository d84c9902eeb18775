// HCCL: process groups for tensors on Ascend NPUs.
#pragma once

#include "device/backend.h"

namespace titan::device::npu {

// See Backend::make_process_group.
c10::intrusive_ptr<c10d::Backend> make_hccl_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const ProcessGroupOptions& options);

// Closes a group whose collectives have ended. Collective.
void close_hccl_group(c10d::Backend& group);

}  // namespace titan::device::npu
