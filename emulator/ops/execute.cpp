#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <dlfcn.h>

#include <cstring>
#include <memory>

#include "ops/operator.h"
#include "runtime/fault.h"
#include "runtime/stream.h"
#include "settings.h"

namespace cannemu::ops {
namespace {

constexpr int kCoreFailed = 507015;

// A thread of a stream uses as many threads as the settings say, whatever the program's own number
// is.
void limit_threads() {
  thread_local const bool once = [] {
    at::internal::lazy_init_num_threads();
    static auto* set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
    if (set && settings().asynchronous) set(settings().threads);
    return true;
  }();
  static_cast<void>(once);
}

int run(const aclOpExecutor& executor) {
  if (fault_now("kernel", executor.name))
    return fail(kCoreFailed, std::string(executor.name) + " failed on order");
  limit_threads();
  // An operator of a chip knows no autograd, autocast, Python or functorch, whatever thread runs
  // it. The guard replaces the thread's set, so the key by which factory functions find their
  // device must be in it.
  c10::impl::ForceDispatchKeyGuard bare(
      c10::DispatchKeySet(c10::DispatchKey::BackendSelect),
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
          c10::python_ks | c10::DispatchKeySet(c10::DispatchKey::FuncTorchDynamicLayerFrontMode) |
          c10::DispatchKeySet(c10::DispatchKey::PythonDispatcher));
  try {
    executor.run();
    return 0;
  } catch (const std::exception& error) {
    failed(executor.name, error.what());
    return kCoreFailed;
  }
}

}  // namespace

int failed(const char* name, const char* why) {
  return fail(kOperatorFailed, std::string(name) + ": " + why);
}

int execute(aclOpExecutor* given, const char* name, void* stream) {
  if (!given) return failed(name, "no executor");
  std::shared_ptr<aclOpExecutor> executor(given);
  if (std::strcmp(executor->name, name) != 0)
    return failed(name, "the executor is that of another operator");
  if (!settings().compute) return launch(stream, name, [] { return 0; });
  return launch(stream, name, [executor] { return run(*executor); });
}

Tensor Argument<Tensor>::get(C tensor) {
  if (!tensor) return Tensor();
  constexpr int kNchw = 0, kNhwc = 1, kNd = 2, kNcdhw = 30, kNcl = 47;
  const int format = checked(tensor).format;
  TORCH_CHECK(format == -1 || format == kNchw || format == kNhwc || format == kNd ||
                  format == kNcdhw || format == kNcl,
              "the private memory format ", format, " is not emulated");
  return tensor->view;
}

void put(const Tensor& out, const Tensor& result) {
  if (!out.defined()) return;
  TORCH_CHECK(out.sizes() == result.sizes() || (out.numel() == result.numel() && out.numel() <= 1),
              "the result is ", result.sizes(), " but the output ", out.sizes());
  out.copy_(result.reshape(out.sizes()));
}

void put(const Tensors& out, const Tensors& result) {
  TORCH_CHECK(out.size() == result.size(), result.size(), " results for ", out.size(), " outputs");
  for (size_t at = 0; at < out.size(); ++at) put(out[at], result[at]);
}

void put_sized(Result out, const Tensor& result) {
  TORCH_CHECK(out->view.is_contiguous() && result.numel() <= out->view.numel(),
              "no room for a result of ", result.sizes());
  out->view.view(-1).slice(0, 0, result.numel()).copy_(result.reshape(-1));
  out->shape = result.sizes().vec();
}

}  // namespace cannemu::ops

extern "C" __attribute__((visibility("default"))) long cannemu_unknown_operator(const char* name) {
  return cannemu::ops::failed(name, "this operator is not emulated");
}
