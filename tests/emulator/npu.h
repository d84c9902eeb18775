// What the emulator's tests share: the device, calls through the dispatcher, comparison with the
// CPU, and the emulator's counters.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <vector>

namespace npu_test {

using at::Tensor;
using Tensors = std::vector<Tensor>;

inline at::Device device() {
  static const bool ready = [] {
    at::globalContext().lazyInitDevice(at::kPrivateUse1);
    return true;
  }();
  return at::Device(at::kPrivateUse1, ready ? 0 : -1);
}

// An operator of the adapter, by name and C++ signature.
template <class Signature>
auto op(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).template typed<Signature>();
}

template <class Function>
Function* emulator_symbol(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_NOW);
  return handle ? reinterpret_cast<Function*>(dlsym(handle, name)) : nullptr;
}

inline uint64_t calls(const std::string& name) {
  static auto* count = emulator_symbol<uint64_t(const char*)>("libascendcl.so", "cannemu_count");
  return count(name.c_str());
}

inline uint64_t calls_with(const std::string& prefix) {
  static auto* count =
      emulator_symbol<uint64_t(const char*)>("libascendcl.so", "cannemu_count_prefix");
  return count(prefix.c_str());
}

inline void set_fault(const char* orders) {
  emulator_symbol<void(const char*)>("libascendcl.so", "cannemu_set_fault")(orders);
}

inline void expect_close(const Tensor& got, const Tensor& want, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  ASSERT_EQ(got.scalar_type(), want.scalar_type()) << what;
  const Tensor g = got.cpu().to(at::kDouble), w = want.cpu().to(at::kDouble);
  EXPECT_TRUE(at::allclose(g, w, tolerance, tolerance, /*equal_nan=*/true))
      << what << ": greatest difference " << (g - w).abs().max().item<double>() << "\ngot "
      << g.flatten().slice(0, 0, 8) << "\nwant " << w.flatten().slice(0, 0, 8);
}

}  // namespace npu_test
