// What a device module (libtitan_<name>.so) offers the binary: one C symbol that returns this
// table. Modules are built with the binary they stand beside; `build` says so and is compared
// before anything else in the table is used.
#pragma once

#include <memory>
#include <string>

#include "device/backend.h"
#include "device/tracing.h"

namespace titan::device {

struct Module {
  const char* build;   // must equal module_build() of the binary
  const char* device;  // "cuda"
  // Empty when at least one device can be used, else the reason in a few words ("no NVIDIA driver:
  // …"). Never throws.
  std::string (*unusable)();
  // REQUIRES unusable() is empty. Opens device 0.
  std::unique_ptr<Backend> (*open)();
  // Ends the use of the device's libraries, before the process tears down threads and static
  // objects. Null: nothing to do.
  void (*close)() = nullptr;
  // The device's own profiler. Null: libtorch's serves it.
  const Tracing* (*tracing)() = nullptr;
};

// The symbol a module exports, as extern "C".
using ModuleEntry = const Module* (*)();
inline constexpr const char* kModuleEntry = "titan_device_module";

// Versions of titan and libtorch that this code was compiled for; differs between a binary and a
// stale module.
inline constexpr const char* module_build() { return TITAN_MODULE_BUILD; }

}  // namespace titan::device
