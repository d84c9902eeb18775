// What the tests on an NPU share: a function run there and on the CPU.
#pragma once

#include <dlfcn.h>

#include <string>

#include "ops/checks.h"

namespace titan::ops {

inline const at::Device kNpu(at::kPrivateUse1, 0);

// f at `values` on `device`; everything in the result is on the CPU.
inline Result run_on(at::Device device, const Function& f, const Inputs& values) {
  Inputs leaves;
  for (const auto& value : values)
    leaves.push_back(value.to(device).detach().set_requires_grad(true));
  const at::Tensor output = f(leaves);
  output.backward(seeded(output.sizes(), output.scalar_type(), 99).to(device));
  Result result{output.detach().cpu(), {}};
  for (const auto& leaf : leaves) result.gradients.push_back(leaf.grad().cpu());
  return result;
}

// How often the emulated CANN was called by a name that begins so.
inline uint64_t calls(const std::string& prefix) {
  static auto* const count = reinterpret_cast<uint64_t (*)(const char*)>(
      dlsym(dlopen("libascendcl.so", RTLD_NOW), "cannemu_count_prefix"));
  return count(prefix.c_str());
}

// How often the host waited for the device.
inline uint64_t waits() {
  return calls("aclrtSynchronize") + calls("aclrtMemcpy") - calls("aclrtMemcpyAsync");
}

}  // namespace titan::ops
