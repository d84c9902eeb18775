// `titan --version`: what exactly is this binary?
#include <fmt/format.h>

#include <cstdio>

#include "cli/command.h"
#include "cli/versions.h"
#include "device/registry.h"

namespace titan::cli {

std::vector<std::pair<std::string, std::string>> version_facts() {
  std::string devices = "cpu";
  for (const auto& module : device::probe_modules(/*load=*/false)) {
    if (module.built) devices += " " + module.name;
  }
  return {{"titan", TITAN_VERSION},
          {"torch", TITAN_TORCH_VERSION},
          {"compiler", fmt::format("{} {}, C++{}", TITAN_COMPILER_ID, TITAN_COMPILER_VERSION,
                                   __cplusplus / 100 % 100)},
          {"devices built in", devices}};
}

int run_version(Arguments) {
  for (const auto& [name, value] : version_facts())
    std::printf("%s%s %s\n", name.c_str(), name == "devices built in" ? ":" : "", value.c_str());
  return 0;
}

}  // namespace titan::cli
