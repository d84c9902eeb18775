// How a process that has used an NPU ends. libtorch_npu expects an interpreter that closes it
// before threads and static objects are torn down; here main() does, through the module's close(),
// after a run that ended well. A run that failed leaves at once: closing waits for work that may
// never end, and the driver frees everything of a process that is gone.
#pragma once

namespace titan::device::npu {

// When the module is opened: from now on the process leaves at once unless it has ended well.
void watch_the_end();

// The last use of the device ended well: it is idle, and nothing of it is held.
void note_clean_end();
// It ended with an exception.
void note_failure();

// Closes CANN if the last use ended well. Nothing of the device may be used afterwards.
void close_cann();

}  // namespace titan::device::npu
