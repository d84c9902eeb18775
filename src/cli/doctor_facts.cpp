#include "cli/doctor_facts.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <filesystem>
#include <fstream>

#include "base/env.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/doctor_network.h"
#include "device/cpu/cpu_backend.h"
#include "device/cpu/host.h"
#include "device/cpu/threads.h"

namespace titan::cli {
namespace {

std::string system_name() {
  std::ifstream release("/etc/os-release");
  for (std::string line; std::getline(release, line);) {
    if (!line.starts_with("PRETTY_NAME=")) continue;
    std::string name = line.substr(line.find('=') + 1);
    std::erase(name, '"');
    return name;
  }
  return "unknown";
}

std::vector<std::pair<std::string, std::string>> collect_versions() {
  utsname kernel{};
  uname(&kernel);
  return {{"titan", TITAN_VERSION},
          {"torch", TITAN_TORCH_VERSION},
          {"compiler", fmt::format("{} {}, C++{}", TITAN_COMPILER_ID, TITAN_COMPILER_VERSION,
                                   __cplusplus / 100 % 100)},
          {"system", system_name()},
          {"kernel", fmt::format("{} {} {}", kernel.sysname, kernel.release, kernel.machine)},
          {"glibc", gnu_get_libc_version()}};
}

std::vector<EnvironmentFact> collect_environment() {
  std::vector<EnvironmentFact> facts;
  for (const auto& variable : env::known())
    facts.push_back({variable.name, variable.meaning, env::get(variable.name)});
  return facts;
}

// Of the wheel that tools/setup.sh --npu unpacked for this build, by the name of its metadata
// folder; empty: none.
std::string torch_npu_version() {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path binary = fs::read_symlink("/proc/self/exe", none);
  for (const auto& entry : fs::directory_iterator(binary.parent_path() / "../.deps/npu", none)) {
    const std::string name = entry.path().filename();
    constexpr std::string_view kHead = "torch_npu-", kTail = ".dist-info";
    if (name.starts_with(kHead) && name.ends_with(kTail)) {
      return name.substr(kHead.size(), name.size() - kHead.size() - kTail.size());
    }
  }
  return {};
}

DeviceFacts collect_device(const device::ModuleInfo& module, std::vector<OpFact>* ops) {
  DeviceFacts facts;
  facts.module = module;
  if (!module.built || !module.usable) return facts;
  const auto backend = device::open_backend({.name = module.name, .threads = {}});
  const device::PeakFlops peak = backend->peak_flops(c10::ScalarType::BFloat16);
  facts.device = backend->device().str();
  facts.count = backend->count();
  facts.memory = backend->memory().capacity;
  facts.memory_free = backend->free_memory();
  facts.flops = peak.per_second;
  facts.flops_source = peak.source;
  facts.memory_speed = measure_memory(*backend);
  const auto sickness = backend->health_check();
  facts.healthy = !sickness;
  facts.health = sickness.value_or("good");
  if (ops && facts.healthy) {
    for (auto& fact : probe_ops(backend->device())) ops->push_back(std::move(fact));
  }
  return facts;
}

CpuFacts collect_cpu() {
  namespace host = device::host;
  const device::ThreadChoice choice = device::choose_threads({});
  device::use_threads(choice);
  const auto cpu = device::open_cpu_backend();
  const device::PeakFlops peak = cpu->peak_flops(c10::ScalarType::Float);
  return {.name = cpu->device_name(),
          .cores = host::affinity_cores(),
          .physical_cores = host::affinity_physical_cores(),
          .quota = host::cpu_quota(),
          .threads = at::get_num_threads(),
          .threads_reason = choice.reason,
          .vector_units = at::get_cpu_capability(),
          .memory = host::memory_capacity(),
          .memory_available = host::memory_available(),
          .memory_resident = host::process_memory().resident,
          .flops = peak.per_second,
          .flops_source = peak.source,
          .memory_speed = measure_memory(*cpu),
          .health = cpu->health_check().value_or("good")};
}

std::vector<PlaceFacts> collect_disk() {
  namespace fs = std::filesystem;
  std::vector<PlaceFacts> places;
  const auto add = [&](const char* what, const fs::path& path) {
    std::error_code absent;
    const fs::space_info space = fs::space(path, absent);
    if (absent) return;
    places.push_back({what, path.string(), static_cast<int64_t>(space.available),
                      static_cast<int64_t>(space.capacity)});
  };
  std::error_code ignored;
  add("current folder", fs::current_path(ignored));
  add("temporary", fs::temp_directory_path(ignored));
  add("shared memory", "/dev/shm");
  return places;
}

}  // namespace

DoctorFacts collect_doctor_facts(bool with_ops) {
  DoctorFacts facts;
  facts.versions = collect_versions();
  // Before the modules: loading one sets defaults for its libraries.
  facts.environment = collect_environment();
  facts.ascend =
      collect_ascend_facts({.torch = TITAN_TORCH_VERSION, .torch_npu = torch_npu_version()});
  facts.network = check_meeting_place();
  facts.hccl = check_hccl_settings();
  const auto npu_settings = device::npu::plan_environment({});
  std::vector<OpFact> device_ops;
  for (const auto& module : device::probe_modules(/*load=*/true)) {
    facts.devices.push_back(collect_device(module, with_ops ? &device_ops : nullptr));
    if (module.name == "npu" && module.built) facts.devices.back().settings = npu_settings;
  }
  facts.cpu = collect_cpu();
  facts.disk = collect_disk();
  if (with_ops) {
    facts.ops = probe_ops(c10::Device(c10::kCPU));
    facts.ops.insert(facts.ops.end(), device_ops.begin(), device_ops.end());
  }
  return facts;
}

}  // namespace titan::cli
