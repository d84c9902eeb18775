// `titan --version`: what exactly is this binary?
#include <c10/macros/Macros.h>
#include <torch/headeronly/version.h>

#include <cstdio>

#include "cli/command.h"

namespace titan::cli {

int run_version(Arguments) {
  std::printf("titan %s\n", TITAN_VERSION);
  std::printf("torch %s\n", TITAN_TORCH_VERSION);
  std::printf("compiler %s %s, C++%ld\n", TITAN_COMPILER_ID, TITAN_COMPILER_VERSION, __cplusplus / 100 % 100);
  std::printf("devices built in: cpu\n");
  return 0;
}

}  // namespace titan::cli
