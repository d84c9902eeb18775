// How a process that has used an NPU ends. libtorch_npu expects an interpreter that closes it
// before static objects are destroyed; here the exit handlers of the process do. A run that ended
// well closes CANN. A run that failed leaves at once: closing waits for work that may never end,
// and the driver frees everything of a process that is gone.
#pragma once

namespace titan::device::npu {

// Once per process, when the module is opened first.
void watch_the_end();

// The device is idle and nothing of it is in use: the process may close CANN when it ends.
void note_clean_end();

}  // namespace titan::device::npu
