// NCCL: process groups for tensors on NVIDIA GPUs. process_group_absent.cpp stands in where the
// headers of NCCL were not found when titan was built.
#pragma once

#include "device/backend.h"

namespace titan::device {

// See Backend::make_process_group.
c10::intrusive_ptr<c10d::Backend> make_nccl_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const ProcessGroupOptions& options);

}  // namespace titan::device
