#include "device/cpu/cpu_backend.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <chrono>
#include <cmath>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/error.h"
#include "base/text.h"
#include "device/cpu/host.h"
#include "device/cpu/process_group.h"
#include "device/cpu/threads.h"
#include "device/health.h"

namespace titan::device {
namespace {

// What one thread reaches in float32 products of square matrices, at its best of a few tries (about
// 5 ms), times the threads. MFU on a CPU is therefore a share of its own measured rate, not of a
// data sheet, and hardly depends on who else is running. float32 whatever is trained in: many CPUs
// have no fast path for other types, and their own slow rate would flatter the share.
double measured_rate() {
  constexpr int64_t kSize = 256;
  constexpr int kTries = 8;
  const c10::InferenceMode no_grad;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor left = at::ones({kSize, kSize}, at::kFloat);
  const at::Tensor right = at::ones({kSize, kSize}, at::kFloat);
  at::Tensor product = at::mm(left, right);
  double best_s = 1e9;
  for (int i = 0; i < kTries; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    at::mm_out(product, left, right);
    best_s = std::min(
        best_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  at::set_num_threads(threads);
  return threads * 2.0 * kSize * kSize * kSize / best_s;
}

class CpuBackend final : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  int count() const override { return 1; }
  void select(int index) override {
    if (index != 0) throw Error("[device] cpu:{} does not exist — the CPU is device 0", index);
  }
  c10::Device device() const override { return c10::Device(c10::kCPU); }
  std::string device_name() const override { return host::cpu_name(); }
  std::string description() const override {
    return fmt::format("{}, {} memory", host::cpu_name(), text::bytes(host::memory_capacity()));
  }

  void seed(uint64_t seed) override { at::manual_seed(seed); }
  void set_deterministic(bool on) override {
    at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/false);
    // Filling fresh memory costs time and changes no result of code that writes before it reads.
    at::globalContext().setDeterministicFillUninitializedMemory(false);
  }
  void synchronize() override {}

  MemoryStats memory() const override {
    const host::ProcessMemory process = host::process_memory();
    return {.allocated = process.resident,
            .allocated_peak = process.resident_peak,
            .reserved = process.resident,
            .reserved_peak = process.resident_peak,
            .capacity = host::memory_capacity()};
  }
  void reset_peak_memory() override { host::reset_peak_memory(); }
  void release_cached_memory() override { host::trim_heap(); }
  int64_t free_memory() const override { return host::memory_available(); }

  PeakFlops peak_flops(c10::ScalarType) override {
    return {measured_rate(), fmt::format("measured: float32 matrix product of one thread, times {}",
                                         at::get_num_threads())};
  }
  bool has_streams() const override { return false; }

  c10::intrusive_ptr<c10d::Backend> make_process_group(
      const c10::intrusive_ptr<c10d::Store>& store, const ProcessGroupOptions& options) override {
    return make_gloo_group(store, options);
  }

  std::optional<std::string> health_check() override { return check_matrix_product(device()); }

 private:
  SpinControl spin_control_;
};

}  // namespace

std::unique_ptr<Backend> open_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace titan::device
