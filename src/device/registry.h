// From a name to an open device. `titan` itself links CPU libtorch only; other devices are modules
// beside the binary, loaded here. Invariant that surprises: the module must be loaded before
// anything asks libtorch for that device or seeds a generator, because libtorch then remembers "not
// available" for the life of the process.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/backend.h"
#include "device/npu/environment.h"

namespace titan::device {

struct OpenOptions {
  std::string name = "auto";       // auto | cpu | cuda | npu
  std::optional<int64_t> threads;  // CPU threads; see device/cpu/threads.h for what happens without
  std::vector<npu::Setting> npu_settings;  // on top of titan's own; see npu/environment.h
};

// Opens the device, sets the CPU threads, and logs one line that says what was chosen and why.
// "auto" takes the first of npu, cuda, cpu whose hardware and module are both there; hardware that
// cannot be used is a warning. Selects the device of LOCAL_RANK. Throws Error for an unknown name,
// EnvironmentError with one line when the device is not part of this build, its libraries are
// missing, or there is no driver or device.
std::unique_ptr<Backend> open_backend(const OpenOptions& options);

// Closes the libraries of the modules that this process has loaded, when main() is about to return:
// no Backend and no tensor of theirs may be left.
void close_modules();

// What doctor and --version show of one module.
struct ModuleInfo {
  std::string name;     // "cuda"
  bool built = false;   // the file is there
  bool usable = false;  // it loads, and a device answers
  std::string path;     // of the file, empty when there is none
  std::string detail;   // device name when usable, else the reason
};

// Looks at each module without opening a device; `load` false only looks for the files (fast, loads
// no library).
std::vector<ModuleInfo> probe_modules(bool load);

}  // namespace titan::device
