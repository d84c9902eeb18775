// What a device's own profiler adds to a trace: a session that writes to a folder, and the named
// ranges of the host in it. A module gives it; a device that libtorch's profiler serves has none.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace titan::device {

struct Tracing {
  // Begins a session that leaves its data in `folder`, which is there. Throws EnvironmentError.
  void (*start)(const std::string& folder);
  // Ends it; the data is complete when this returns.
  void (*stop)();
  // A range of the calling thread, or 0 outside of a session. Any thread may close it.
  uint64_t (*open_range)(const char* name);
  void (*close_range)(uint64_t range);
  // What a user opens the folder with, in a few words.
  const char* reader;
};

// Of the module that serves this kind of device; null when it has none or is not loaded.
const Tracing* tracing_of(c10::DeviceType device);

}  // namespace titan::device
