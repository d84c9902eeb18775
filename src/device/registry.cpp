#include "device/registry.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "device/cpu/cpu_backend.h"
#include "device/cpu/threads.h"
#include "device/module.h"
#include "device/torch_compat.h"

namespace titan::device {
namespace {

namespace fs = std::filesystem;

struct Kind {
  const char* name;
  const char* hardware;  // for messages
  // Device files that exist when the kernel driver has seen hardware; nothing is loaded to find
  // out.
  std::array<const char*, 3> device_files;
  // Environment that must be set before the module's libraries are loaded; a user's own value wins.
  const char* allocator_default;
};

// In the order that "auto" tries them.
constexpr Kind kKinds[] = {
    {"npu", "Ascend NPU", {"/dev/davinci_manager", "/dev/davinci0", "/dev/devmm_svm"}, ""},
    {"cuda",
     "NVIDIA GPU",
     {"/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"},
     "expandable_segments:True"},
};

const Kind* find_kind(const std::string& name) {
  for (const auto& kind : kKinds) {
    if (name == kind.name) return &kind;
  }
  return nullptr;
}

bool hardware_seen(const Kind& kind) {
  std::error_code error;
  for (const char* file : kind.device_files) {
    if (fs::exists(file, error)) return true;
  }
  return false;
}

fs::path module_folder() {
  if (const auto folder = env::get("TITAN_MODULES")) return *folder;
  std::error_code error;
  const fs::path binary = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path(".") : binary.parent_path();
}

// torch_npu's wheel in an embedded interpreter instead of with a stand-in for one.
constexpr const char* kNpuThroughPython = "npu_python";

fs::path module_path(const char* name) {
  return module_folder() / fmt::format("libtitan_{}.so", name);
}

bool is_npu(const Kind& kind) { return std::string_view(kind.name) == "npu"; }

fs::path module_path(const Kind& kind, const std::vector<npu::Setting>& npu_settings) {
  const bool python = is_npu(kind) && npu::through_python(npu_settings);
  return module_path(python ? kNpuThroughPython : kind.name);
}

// What dlopen says, and what to do where that is known.
std::string loader_reason(const Kind& kind, const std::string& said) {
  const bool no_cann = is_npu(kind) && (said.find("libascendcl") != std::string::npos ||
                                        said.find("libhccl") != std::string::npos);
  return fmt::format("its libraries cannot be loaded: {}{}", said,
                     no_cann ? " (CANN is not installed or not on LD_LIBRARY_PATH: source "
                               "/usr/local/Ascend/ascend-toolkit/set_env.sh)"
                             : "");
}

// Loads the module of `kind` for the life of the process. `reason` is set and nullptr returned when
// it cannot be.
const Module* load_module(const Kind& kind, const std::vector<npu::Setting>& npu_settings,
                          std::string& reason) {
  const fs::path path = module_path(kind, npu_settings);
  std::error_code error;
  if (!fs::exists(path, error)) {
    reason = fmt::format("not part of this build (no {})", path.string());
    return nullptr;
  }
  // torch_npu takes its own variable or the general one, not both: a process that looks at an NPU
  // and at a GPU keeps to the first.
  const bool user_chose = env::get("PYTORCH_ALLOC_CONF") || env::get("PYTORCH_CUDA_ALLOC_CONF") ||
                          env::get("PYTORCH_NPU_ALLOC_CONF");
  if (*kind.allocator_default && !user_chose) {
    env::set_default(kCudaAllocatorVariable, kind.allocator_default);
  }
  if (is_npu(kind)) {
    const auto plan = npu::plan_environment(npu_settings);
    npu::apply_environment(plan);
    log::info("NPU settings: {}", npu::describe(plan));
  }
  // RTLD_GLOBAL: libtorch's own lazily loaded parts look for symbols of the vendor libraries.
  void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_GLOBAL);
  if (handle == nullptr) {
    reason = loader_reason(kind, dlerror());
    return nullptr;
  }
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(handle, kModuleEntry));
  if (entry == nullptr) {
    reason = fmt::format("{} is not a module of titan", path.string());
    return nullptr;
  }
  const Module* module = entry();
  if (std::string_view(module->build) != module_build()) {
    reason = fmt::format("{} was built for '{}', this binary for '{}': build both again",
                         path.string(), module->build, module_build());
    return nullptr;
  }
  return module;
}

// The modules that are in the process, which stay there until it ends.
std::vector<const Module*> loaded_modules() {
  std::vector<const char*> names{kNpuThroughPython};
  for (const auto& kind : kKinds) names.push_back(kind.name);
  std::vector<const Module*> modules;
  for (const char* name : names) {
    void* handle = dlopen(module_path(name).c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    const auto entry = reinterpret_cast<ModuleEntry>(dlsym(handle, kModuleEntry));
    if (entry != nullptr && std::string_view(entry()->build) == module_build()) {
      modules.push_back(entry());
    }
    dlclose(handle);
  }
  return modules;
}

// The module if a device can be used, else nullptr and the reason.
const Module* usable_module(const Kind& kind, const std::vector<npu::Setting>& npu_settings,
                            std::string& reason) {
  const Module* module = load_module(kind, npu_settings, reason);
  if (module == nullptr) return nullptr;
  reason = module->unusable();
  return reason.empty() ? module : nullptr;
}

std::unique_ptr<Backend> open_named(const Kind& kind, const OpenOptions& options) {
  std::string reason;
  const Module* module = usable_module(kind, options.npu_settings, reason);
  if (module == nullptr) {
    throw EnvironmentError(
        "[device] device '{}' cannot be used: {} — titan doctor says more, device.name = \"cpu\" "
        "trains on the CPU",
        kind.name, reason);
  }
  return module->open();
}

std::unique_ptr<Backend> open_first_present(const OpenOptions& options, std::string& why) {
  std::vector<std::string> absent;
  for (const auto& kind : kKinds) {
    if (!hardware_seen(kind)) {
      absent.push_back(kind.name);
      continue;
    }
    std::string reason;
    if (const Module* module = usable_module(kind, options.npu_settings, reason)) {
      why = fmt::format("auto: {} found", kind.hardware);
      return module->open();
    }
    log::warning("device: an {} is here but cannot be used: {}", kind.hardware, reason);
  }
  why = absent.empty() ? "auto: no usable accelerator"
                       : fmt::format("auto: no {} device here", text::join(absent, " or "));
  return open_cpu_backend();
}

}  // namespace

std::unique_ptr<Backend> open_backend(const OpenOptions& options) {
  std::string why = "as configured";
  std::unique_ptr<Backend> backend;
  if (options.name == "auto") {
    backend = open_first_present(options, why);
  } else if (options.name == "cpu") {
    backend = open_cpu_backend();
  } else if (const Kind* kind = find_kind(options.name)) {
    backend = open_named(*kind, options);
  } else {
    throw Error("[device] device.name = \"{}\" is not a device — use auto, cpu, cuda or npu",
                options.name);
  }
  const ThreadChoice threads = choose_threads(options.threads);
  use_threads(threads);
  const int64_t local_rank = env::get_int("LOCAL_RANK").value_or(0);
  // Ranks on the CPU share it; an accelerator belongs to one rank.
  backend->select(backend->name() == "cpu" ? 0 : static_cast<int>(local_rank));
  log::info("Device: {} ({}); {} CPU threads ({}); {}", backend->name(), backend->description(),
            threads.count, threads.reason, why);
  return backend;
}

void close_modules() {
  for (const Module* module : loaded_modules()) {
    if (module->close) module->close();
  }
}

const Tracing* tracing_of(c10::DeviceType device) {
  if (device != c10::DeviceType::PrivateUse1) return nullptr;
  for (const Module* module : loaded_modules()) {
    if (std::string_view(module->device) == "npu" && module->tracing) return module->tracing();
  }
  return nullptr;
}

std::vector<ModuleInfo> probe_modules(bool load) {
  std::vector<ModuleInfo> result;
  for (const auto& kind : kKinds) {
    ModuleInfo info;
    info.name = kind.name;
    std::error_code error;
    const fs::path path = module_path(kind, {});
    info.built = fs::exists(path, error);
    if (info.built) info.path = path.string();
    if (!load) {
      info.detail = info.built ? "built" : "not part of this build";
    } else if (const Module* module = usable_module(kind, {}, info.detail)) {
      info.usable = true;
      info.detail = module->open()->description();
    }
    result.push_back(std::move(info));
  }
  return result;
}

}  // namespace titan::device
