// libtitan_npu_python.so: the second way to libtorch_npu.so, for wheels that nopython.cpp cannot
// serve. It starts a Python interpreter inside the process, imports torch and torch_npu there, so
// that their libraries are in the process with everything they need, and only then loads the module
// proper (python/libtitan_npu_wheel.so, the sources of libtitan_npu.so without the stand-in).
//
// `import torch` puts Python's autograd engine in the place of whatever was there. Whoever needs an
// engine of its own sets it after the device is open; Python's adds nothing but hooks of Python
// code, of which there is none here. The interpreter is never ended: threads of torch_npu may call
// into it until the process is gone.
#include <Python.h>
#include <dlfcn.h>

#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "device/module.h"

namespace titan::device::npu {
namespace {

namespace fs = std::filesystem;

struct Release {
  void operator()(PyObject* object) const { Py_XDECREF(object); }
};
using Object = std::unique_ptr<PyObject, Release>;

// The interpreter whose packages are used: of TITAN_NPU_PYTHON (a program or the folder of a
// virtual environment), else of the active environment, else the one that PATH finds.
std::string program() {
  auto chosen = env::get("TITAN_NPU_PYTHON");
  if (!chosen || chosen->empty()) chosen = env::get("VIRTUAL_ENV");
  if (!chosen || chosen->empty()) return "python3";
  std::error_code none;
  if (!fs::is_directory(*chosen, none)) return *chosen;
  return fs::path(*chosen) / "bin" / "python";
}

std::string text_of(PyObject* object) {
  const Object text(object ? PyObject_Str(object) : nullptr);
  const char* said = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  return said ? said : "unknown";
}

// "ImportError: …", and no error is pending any more.
std::string pending_error() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const Object keep_type(type), keep_value(value), keep_trace(trace);
  const Object name(type ? PyObject_GetAttrString(type, "__name__") : nullptr);
  return fmt::format("{}: {}", text_of(name.get()), text_of(value));
}

void start(const std::string& python) {
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.parse_argv = 0;
  config.install_signal_handlers = 0;  // signals are titan's
  PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, python.c_str());
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status)) {
    throw EnvironmentError("the interpreter of {} (this build has Python {}) does not start: {}",
                           python, PY_VERSION, status.err_msg ? status.err_msg : "no reason given");
  }
}

// Imports a package and compares its version, up to a "+cpu" or the like, with this build's.
std::string import(const char* name, const std::string& built_for, const std::string& python) {
  const Object package(PyImport_ImportModule(name));
  if (!package) {
    throw EnvironmentError(
        "{} cannot be imported by {}: {} — set TITAN_NPU_PYTHON to a virtual environment with "
        "torch, torch_npu {} and what they import (numpy, pyyaml)",
        name, python, pending_error(), TITAN_TORCH_NPU_VERSION);
  }
  const Object attribute(PyObject_GetAttrString(package.get(), "__version__"));
  const std::string version = text_of(attribute.get());
  const auto number = [](const std::string& full) { return full.substr(0, full.find('+')); };
  if (number(version) != number(built_for)) {
    throw EnvironmentError("{} of {} is {}, this titan is built for {}: install that version there",
                           name, python, version, built_for);
  }
  return version;
}

const Module* load_module_proper() {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&load_module_proper), &self) == 0) return nullptr;
  const fs::path file = fs::path(self.dli_fname).parent_path() / "python" / "libtitan_npu_wheel.so";
  void* handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_GLOBAL);
  if (handle == nullptr)
    throw EnvironmentError("{} cannot be loaded: {}", file.string(), dlerror());
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(handle, kModuleEntry));
  const Module* module = entry ? entry() : nullptr;
  if (module == nullptr || std::string_view(module->build) != module_build()) {
    throw EnvironmentError("{} is of another build: build it again", file.string());
  }
  return module;
}

// The module proper, or why there is none. Once in a process: an interpreter starts only once.
struct Loaded {
  const Module* module = nullptr;
  std::string reason;

  static const Loaded& get() {
    static const Loaded loaded = load();
    return loaded;
  }

 private:
  static Loaded load() {
    Loaded loaded;
    try {
      const std::string python = program();
      // Not of itself, while torch is half imported.
      env::set_default("TORCH_DEVICE_BACKEND_AUTOLOAD", "0");
      start(python);
      const struct GiveBack {  // the lock, for whoever needs it next
        ~GiveBack() { PyEval_SaveThread(); }
      } give_back;
      const std::string torch = import("torch", TITAN_TORCH_VERSION, python);
      const std::string torch_npu = import("torch_npu", TITAN_TORCH_NPU_VERSION, python);
      loaded.module = load_module_proper();
      log::info("NPU through the interpreter of {}: Python {}, torch {}, torch_npu {}", python,
                PY_VERSION, torch, torch_npu);
    } catch (const std::exception& error) {
      loaded.reason = error.what();
    }
    return loaded;
  }
};

std::string unusable() {
  const Loaded& loaded = Loaded::get();
  return loaded.module ? loaded.module->unusable() : loaded.reason;
}

std::unique_ptr<Backend> open() { return Loaded::get().module->open(); }

void close() {
  if (const Module* module = Loaded::get().module) module->close();
}

const Tracing* tracing() {
  const Module* module = Loaded::get().module;
  return module ? module->tracing() : nullptr;
}

}  // namespace
}  // namespace titan::device::npu

extern "C" __attribute__((visibility("default"))) const titan::device::Module*
titan_device_module() {
  static constexpr titan::device::Module kModule{
      .build = titan::device::module_build(),
      .device = "npu",
      .unusable = titan::device::npu::unusable,
      .open = titan::device::npu::open,
      .close = titan::device::npu::close,
      .tracing = titan::device::npu::tracing,
  };
  return &kModule;
}
