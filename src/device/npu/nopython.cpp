// Stands in for libtorch_python.so and for the interpreter, so that the Python build of
// libtorch_npu.so runs in a process without either. The library is linked as "libtorch_python.so"
// and must be loaded before libtorch_npu.so, which then finds every name here and pulls in neither
// libtorch_python nor (of a CUDA build of torch) libtorch_cuda.
//
// What libtorch_npu asks of Python on the way of a C++ program is written here: it takes the lock
// around its first use of the device, runs torch_npu.npu._lazy_init() (whose work the C++ side does
// itself on first use) and asks where torch is installed. Objects are handed out as one undying
// object that answers every question about its type with yes. All other names the library wants are
// generated at build time (cmake/make_stubs.py) and throw, naming themselves: the dump of Python
// stacks after a collective's time-out, for one, is caught and logged by its caller. Never load
// this into a process that has an interpreter.
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

// The head of a CPython object: a count that never falls to zero, and the type.
struct Object {
  int64_t references = int64_t{1} << 40;
  Object* type = nullptr;
  // tp_flags of a type object is at 0xa8 in CPython 3.9 to 3.12; all bits set makes every PyX_Check
  // true.
  char until_flags[0xa8 - 16] = {};
  uint64_t flags = ~uint64_t{0};
  char rest[1 << 14] = {};
};

Object* the_object() {
  static Object type;
  static Object object{.type = &type};
  type.type = &type;
  return &object;
}

// Thread state and pybind11's `internals` are only read and counted in by the code that takes the
// lock.
alignas(64) char thread_state[1 << 16];
alignas(64) char pybind_internals[1 << 16];
void* pybind_internals_owner = pybind_internals;

// The folder that holds torch_npu/, found by the library itself: its acl.json lies there.
std::string site_folder() {
  std::string folder;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        constexpr std::string_view kLibrary = "/torch_npu/lib/libtorch_npu.so";
        std::string_view path = info->dlpi_name ? info->dlpi_name : "";
        if (!path.ends_with(kLibrary)) return 0;
        *static_cast<std::string*>(out) = path.substr(0, path.size() - kLibrary.size());
        return 1;
      },
      &folder);
  return folder;
}

}  // namespace

#define PYTHON extern "C" __attribute__((visibility("default")))

// Called by each generated name.
PYTHON long titan_python_missing(const char* name) {
  throw std::runtime_error(
      std::string("this process has no Python interpreter, and libtorch_npu called ") + name);
}

// The lock.
PYTHON int PyGILState_Ensure() { return 0; }
PYTHON void PyGILState_Release(int) {}
PYTHON int PyGILState_Check() { return 0; }
PYTHON void* PyGILState_GetThisThreadState() { return thread_state; }
PYTHON void* PyEval_SaveThread() { return thread_state; }
PYTHON void PyEval_RestoreThread(void*) {}
PYTHON void PyEval_AcquireThread(void*) {}
PYTHON void* _PyThreadState_UncheckedGet() { return thread_state; }
PYTHON void* PyThreadState_GetUnchecked() { return thread_state; }
PYTHON void* PyThreadState_Get() { return thread_state; }
PYTHON void PyThreadState_Clear(void*) {}
PYTHON void PyThreadState_DeleteCurrent() {}
PYTHON void* PyThread_tss_get(void*) { return nullptr; }
PYTHON int PyThread_tss_set(void*, void*) { return 0; }
PYTHON int PyThread_tss_create(void*) { return 0; }
PYTHON void PyThread_tss_delete(void*) {}
PYTHON int Py_IsInitialized() { return 0; }

// No error is ever pending.
PYTHON void PyErr_Fetch(void** type, void** value, void** trace) {
  *type = *value = *trace = nullptr;
}
PYTHON void PyErr_Restore(void*, void*, void*) {}
PYTHON void* PyErr_Occurred() { return nullptr; }
PYTHON void PyErr_Clear() {}

// pybind11 looks for its `internals` in a dictionary of the interpreter; it is there from the
// start.
PYTHON void* PyInterpreterState_Get() { return the_object(); }
PYTHON void* PyInterpreterState_GetDict(void*) { return the_object(); }
PYTHON void* PyEval_GetBuiltins() { return the_object(); }
PYTHON void* PyDict_GetItemString(void*, const char*) { return the_object(); }
PYTHON void* PyDict_GetItemWithError(void*, void*) { return the_object(); }
PYTHON void* PyUnicode_FromString(const char*) { return the_object(); }
PYTHON void* PyCapsule_GetPointer(void*, const char*) { return &pybind_internals_owner; }

// torch_npu.npu._lazy_init() and torch.__file__.
PYTHON void* PyImport_ImportModule(const char*) { return the_object(); }
PYTHON void* PyObject_CallMethod(void*, const char*, const char*, ...) { return the_object(); }
PYTHON void* PyObject_GetAttrString(void*, const char*) { return the_object(); }
PYTHON const char* PyUnicode_AsUTF8(void*) {
  static const std::string torch_file = site_folder() + "/torch/__init__.py";
  return torch_file.c_str();
}
// A holder of a Python reference lets go of it (THPObjectPtr's destructor).
PYTHON void _ZN10THPPointerI7_objectE4freeEv(void*) {}
