// The environment variables that torch_npu and CANN read when they are loaded, with values that
// titan sets instead of the user. Part of the core: they must be set before the module is loaded.
#pragma once

#include <string>
#include <vector>

namespace titan::device::npu {

// A variable of env::known(), what it is to be, and who says so.
struct Setting {
  const char* variable;
  std::string value;
  std::string source;  // "exported", "default", or the config key
};

// `asked` on top of titan's defaults, and what the user exported on top of both, in a fixed order.
// Throws Error when values contradict each other. Changes nothing.
std::vector<Setting> plan_environment(const std::vector<Setting>& asked);

// Sets the variables that are not exported. Before the module is loaded, while the process has one
// thread of ours.
void apply_environment(const std::vector<Setting>& plan);

// Whether the interpreter is asked for instead of the stand-in for it, by what is exported or else
// by `asked`. Throws Error for a value that is neither.
bool through_python(const std::vector<Setting>& asked);

// "TASK_QUEUE_ENABLE=2 (default), …", one line.
std::string describe(const std::vector<Setting>& plan);

}  // namespace titan::device::npu
