// `titan --version`: what exactly is this binary?
#include <cstdio>

#include "cli/command.h"
#include "device/registry.h"

namespace titan::cli {

int run_version(Arguments) {
  std::printf("titan %s\n", TITAN_VERSION);
  std::printf("torch %s\n", TITAN_TORCH_VERSION);
  std::printf("compiler %s %s, C++%ld\n", TITAN_COMPILER_ID, TITAN_COMPILER_VERSION, __cplusplus / 100 % 100);
  std::printf("devices built in: cpu");
  for (const auto& module : device::probe_modules(/*load=*/false)) {
    if (module.built) std::printf(" %s", module.name.c_str());
  }
  std::printf("\n");
  return 0;
}

}  // namespace titan::cli
