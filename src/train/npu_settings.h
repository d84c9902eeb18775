// What a configuration asks of the environment of torch_npu and HCCL.
#pragma once

#include <vector>

#include "config/job_config.h"
#include "device/npu/environment.h"

namespace titan::train {

// For OpenOptions::npu_settings.
std::vector<device::npu::Setting> npu_settings(const config::JobConfig& config);

}  // namespace titan::train
