// `titan doctor`: what this machine and this build can do, in one screen; the first thing to send
// with a question.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/command.h"
#include "device/cpu/cpu_backend.h"
#include "device/cpu/host.h"
#include "device/cpu/threads.h"
#include "device/registry.h"

namespace titan::cli {
namespace {

void print_row(const char* name, const std::string& value) {
  std::printf("  %-14s %s\n", name, value.c_str());
}

void print_cpu() {
  namespace host = device::host;
  const device::ThreadChoice threads = device::choose_threads({});
  device::use_threads(threads);
  const auto cpu = device::open_cpu_backend();
  const device::PeakFlops peak = cpu->peak_flops(c10::ScalarType::Float);
  const auto quota = host::cpu_quota();
  std::printf("cpu\n");
  print_row("name", cpu->device_name());
  print_row("cores", fmt::format("{} usable ({} physical), quota {}", host::affinity_cores(),
                                 host::affinity_physical_cores(),
                                 quota ? fmt::format("{:.1f}", *quota) : "none"));
  print_row("threads", fmt::format("{} ({})", threads.count, threads.reason));
  print_row("memory", fmt::format("{}, {} available", text::bytes(host::memory_capacity()),
                                  text::bytes(host::memory_available())));
  print_row("speed", fmt::format("{:.0f} GFLOP/s ({})", peak.per_second / 1e9, peak.source));
  print_row("health", cpu->health_check().value_or("good"));
}

void print_environment() {
  std::printf("environment\n");
  bool any = false;
  for (const auto& variable : env::known()) {
    if (const auto value = env::get(variable.name)) {
      print_row(variable.name, fmt::format("{}  ({})", *value, variable.meaning));
      any = true;
    }
  }
  if (!any) std::printf("  none of the variables that titan reads is set\n");
}

// Opens the device, so that a health check can run on it. Returns false when it is sick or cannot
// be opened.
bool print_module(const device::ModuleInfo& module) {
  std::printf("%s\n", module.name.c_str());
  if (!module.built) {
    print_row("module", "not part of this build");
    return false;
  }
  print_row("module", fmt::format("built ({})", module.path));
  if (!module.usable) {
    print_row("device", fmt::format("none can be used: {}", module.detail));
    return false;
  }
  const auto backend = device::open_backend({.name = module.name, .threads = {}});
  print_row("device",
            fmt::format("{} of {}: {}", backend->device().str(), backend->count(), module.detail));
  print_row("memory free", text::bytes(backend->free_memory()));
  const device::PeakFlops peak = backend->peak_flops(c10::ScalarType::BFloat16);
  print_row("peak", fmt::format("{:.0f} TFLOP/s ({})", peak.per_second / 1e12, peak.source));
  const auto sickness = backend->health_check();
  print_row("health", sickness.value_or("good"));
  return !sickness;
}

}  // namespace

int run_doctor(Arguments arguments) {
  CLI::App app{"Shows what this build and this machine can do: devices, threads, memory, settings.",
               "titan doctor"};
  std::string required;
  app.add_option("--device", required,
                 "exit with code 3 unless this device (cpu, cuda, npu) can be used")
      ->check(CLI::IsMember({"cpu", "cuda", "npu"}));
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    throw Error("[cli] titan doctor: {} — see titan doctor --help", error.what());
  }

  run_version({});
  print_environment();  // before the modules: loading one sets defaults for its libraries
  // Modules first: see device/registry.h for why nothing may touch libtorch's devices before.
  bool usable = required.empty() || required == "cpu";
  for (const auto& module : device::probe_modules(/*load=*/true)) {
    const bool healthy = print_module(module);
    if (module.name == required) usable = healthy;
  }
  print_cpu();
  std::printf("disk\n");
  print_row("here", fmt::format("{} free in {}", text::bytes(files::free_space(".")),
                                std::filesystem::current_path().string()));
  if (usable) return 0;
  throw EnvironmentError("[doctor] device '{}' cannot be used here — the lines above say why",
                         required);
}

}  // namespace titan::cli
