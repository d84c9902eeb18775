// One NVIDIA GPU behind the Backend contract, and the entry of the module libtitan_cuda.so. Only
// the CUDA runtime's headers are used, so this builds wherever the torch wheel does, without a CUDA
// toolkit.
#include <ATen/ATen.h>
#include <ATen/SDPBackend.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/env.h"
#include "base/error.h"
#include "base/text.h"
#include "device/cuda/operators.h"
#include "device/cuda/peak_flops.h"
#include "device/cuda/process_group.h"
#include "device/health.h"
#include "device/module.h"

namespace titan::device::cuda {
namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

class CudaGraph final : public Graph {
 public:
  // NCCL's watchdog asks for events from its own thread while this one records.
  void begin() override { graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal); }
  void end() override { graph_.capture_end(); }
  void replay() override { graph_.replay(); }
  void reset() override { graph_.reset(); }

 private:
  at::cuda::CUDAGraph graph_;
};

class CudaBackend final : public Backend {
 public:
  CudaBackend() {
    // Measured on H200: cuDNN's attention is 1.3 to 1.6 times as fast as flash attention for bf16
    // training shapes. Each refuses what it cannot do (dtype, head size, determinism) and the next
    // is asked.
    using at::SDPBackend;
    at::globalContext().setSDPPriorityOrder({static_cast<int64_t>(SDPBackend::cudnn_attention),
                                             static_cast<int64_t>(SDPBackend::flash_attention),
                                             static_cast<int64_t>(SDPBackend::efficient_attention),
                                             static_cast<int64_t>(SDPBackend::math)});
  }

  std::string name() const override { return "cuda"; }
  int count() const override { return c10::cuda::device_count(); }

  void select(int index) override {
    if (index < 0 || index >= count()) {
      throw Error(
          "[device] cuda:{} does not exist, {} GPU{} visible — check LOCAL_RANK and "
          "CUDA_VISIBLE_DEVICES",
          index, count(), count() == 1 ? " is" : "s are");
    }
    index_ = static_cast<c10::DeviceIndex>(index);
    at::globalContext().lazyInitDevice(c10::kCUDA);
    c10::cuda::set_device(index_, /*force=*/true);
  }
  c10::Device device() const override { return {c10::kCUDA, index_}; }
  std::string device_name() const override { return properties().name; }

  std::string description() const override {
    const cudaDeviceProp device = properties();
    int driver = 0, runtime = 0;
    C10_CUDA_CHECK(cudaDriverGetVersion(&driver));
    C10_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    return fmt::format(
        "{}, {} memory, compute capability {}.{}, driver for CUDA {}, runtime CUDA {}", device.name,
        text::bytes(static_cast<int64_t>(device.totalGlobalMem)), device.major, device.minor,
        version_text(driver), version_text(runtime));
  }

  void seed(uint64_t seed) override { at::manual_seed(seed); }

  void set_deterministic(bool on) override {
    auto& context = at::globalContext();
    if (on) env::set_default("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
    context.setDeterministicAlgorithms(on, /*warn_only=*/false);
    context.setDeterministicFillUninitializedMemory(false);
    context.setDeterministicCuDNN(on);
    context.setBenchmarkCuDNN(false);
  }

  void synchronize() override {
    select_here();
    c10::cuda::device_synchronize();
  }

  MemoryStats memory() const override {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index_);
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return {.allocated = stats.allocated_bytes[kAll].current,
            .allocated_peak = stats.allocated_bytes[kAll].peak,
            .reserved = stats.reserved_bytes[kAll].current,
            .reserved_peak = stats.reserved_bytes[kAll].peak,
            .capacity = static_cast<int64_t>(properties().totalGlobalMem),
            .alloc_retries = stats.num_alloc_retries,
            .out_of_memory = stats.num_ooms};
  }
  void reset_peak_memory() override { c10::cuda::CUDACachingAllocator::resetPeakStats(index_); }
  void release_cached_memory() override { c10::cuda::CUDACachingAllocator::emptyCache(); }
  int64_t free_memory() const override {
    select_here();
    size_t free = 0, total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return static_cast<int64_t>(free);
  }

  PeakFlops peak_flops(c10::ScalarType) override { return peak_flops_of(device_name()); }
  bool has_streams() const override { return true; }
  std::unique_ptr<Graph> make_graph() override { return std::make_unique<CudaGraph>(); }
  std::string graph_problem() const override { return ""; }

  c10::intrusive_ptr<c10d::Backend> make_process_group(
      const c10::intrusive_ptr<c10d::Store>& store, const ProcessGroupOptions& options) override {
    return make_nccl_group(store, options);
  }

  std::optional<std::string> health_check() override { return check_matrix_product(device()); }

 private:
  void select_here() const { c10::cuda::set_device(index_); }

  cudaDeviceProp properties() const {
    cudaDeviceProp result{};
    C10_CUDA_CHECK(cudaGetDeviceProperties(&result, index_));
    return result;
  }

  c10::DeviceIndex index_ = 0;
  std::shared_ptr<Operators> operators_ = register_operators();
};

std::string unusable() {
  int devices = 0;
  const cudaError_t status = C10_CUDA_ERROR_HANDLED(cudaGetDeviceCount(&devices));
  if (status == cudaSuccess && devices > 0) return "";
  C10_CUDA_IGNORE_ERROR(cudaGetLastError());
  int driver = 0;
  C10_CUDA_IGNORE_ERROR(cudaDriverGetVersion(&driver));
  if (driver == 0) return "no NVIDIA driver on this machine";
  if (status == cudaErrorInsufficientDriver) {
    return fmt::format(
        "the NVIDIA driver is for CUDA {}, this libtorch for CUDA {}: update the driver, or set "
        "TITAN_TORCH "
        "to a torch built for the older CUDA",
        version_text(driver), version_text(CUDART_VERSION));
  }
  if (status == cudaSuccess || status == cudaErrorNoDevice) {
    const auto visible = env::get("CUDA_VISIBLE_DEVICES");
    return visible ? fmt::format("no NVIDIA GPU visible (CUDA_VISIBLE_DEVICES={})", *visible)
                   : "no NVIDIA GPU on this machine";
  }
  return cudaGetErrorString(status);
}

}  // namespace
}  // namespace titan::device::cuda

extern "C" __attribute__((visibility("default"))) const titan::device::Module*
titan_device_module() {
  static constexpr titan::device::Module kModule{
      .build = titan::device::module_build(),
      .device = "cuda",
      .unusable = titan::device::cuda::unusable,
      .open = []() -> std::unique_ptr<titan::device::Backend> {
        return std::make_unique<titan::device::cuda::CudaBackend>();
      },
  };
  return &kModule;
}
