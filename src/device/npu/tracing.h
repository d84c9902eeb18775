#pragma once

#include "device/tracing.h"

namespace titan::device::npu {

// CANN's profiler (aclprof): times of tasks, calls and collectives, and ranges of the host as
// msproftx. Its functions are looked up when they are first used.
const Tracing* cann_tracing();

}  // namespace titan::device::npu
