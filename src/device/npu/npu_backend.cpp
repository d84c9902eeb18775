// One Ascend NPU behind the Backend contract, and the entry of the module libtitan_npu.so, on the
// unmodified libtorch_npu.so of the torch-npu wheel. The process has no Python interpreter:
// nopython.cpp stands in for it.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <third_party/acl/inc/acl/acl.h>
#include <torch_npu/csrc/aten/NPUGeneratorImpl.h>
#include <torch_npu/csrc/core/npu/GetCANNInfo.h>
#include <torch_npu/csrc/core/npu/NPUCachingAllocator.h>
#include <torch_npu/csrc/core/npu/NPUFunctions.h>
#include <torch_npu/csrc/core/npu/NPUGraph.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>

#include <exception>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/env.h"
#include "base/error.h"
#include "base/text.h"
#include "device/health.h"
#include "device/module.h"
#include "device/npu/ending.h"
#include "device/npu/peak_flops.h"
#include "device/npu/process_group.h"
#include "device/npu/tracing.h"

namespace titan::device::npu {
namespace {

namespace allocator = c10_npu::NPUCachingAllocator;

void check(aclError status, const char* call) {
  if (status == ACL_SUCCESS) return;
  const char* said = aclGetRecentErrMsg();
  throw EnvironmentError("[device] {} failed with {}: {}", call, status, said ? said : "");
}

// torch_npu's graph cleans up only after captures that went well. After another one its allocator
// still holds the pool open, and its generator believes that it is captured.
class NpuGraph final : public Graph, private c10_npu::NPUGraph {
 public:
  // HCCL's watchdog asks for events from its own thread while this one records.
  void begin() override {
    begun_ = true;
    capture_begin({0, 0}, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL);
  }
  void end() override {
    capture_end();
    begun_ = false;
  }
  void replay() override { NPUGraph::replay(); }
  void reset() override {
    if (begun_) close_failed_capture();
    NPUGraph::reset();
  }

 private:
  void close_failed_capture() {
    begun_ = false;
    for (auto& [state, increment] : captured_generator_states_) state->capturing_ = false;
    if (mempool_id_ == c10_npu::MempoolId_t{}) return;  // it did not come to a pool
    allocator::endAllocateToPool(static_cast<c10::DeviceIndex>(capture_dev_), mempool_id_);
    allocator::releasePool(static_cast<c10::DeviceIndex>(capture_dev_), mempool_id_);
    mempool_id_ = {};
  }

  bool begun_ = false;
};

class NpuBackend final : public Backend {
 public:
  NpuBackend() {
    at::globalContext().lazyInitDevice(c10::kPrivateUse1);
    select(0);
    if (const auto problem = chip_problem(device_name())) {
      throw EnvironmentError("[device] {} — train on an Atlas A2, A3 or an Ascend 950", *problem);
    }
  }

  // Groups whose run was cut short are left as they are: closing one waits for its peers, of which
  // one may be gone.
  ~NpuBackend() override {
    if (std::uncaught_exceptions() > 0) {
      for (auto& group : groups_) group.release();
      note_failure();
      return;
    }
    try {
      c10_npu::npuSynchronizeDevice();
      for (auto& group : groups_) close_hccl_group(*group);
      groups_.clear();
      note_clean_end();
    } catch (const std::exception&) {
      // The run itself has ended well; what fails here is of no consequence for it.
      for (auto& group : groups_) group.release();
    }
  }

  std::string name() const override { return "npu"; }
  int count() const override { return c10_npu::device_count(); }

  void select(int index) override {
    if (index < 0 || index >= count()) {
      throw Error(
          "[device] npu:{} does not exist, {} NPU{} visible — check LOCAL_RANK and "
          "ASCEND_RT_VISIBLE_DEVICES",
          index, count(), count() == 1 ? " is" : "s are");
    }
    index_ = static_cast<c10::DeviceIndex>(index);
    c10_npu::set_device(index_);
    // torch_npu opens the device, and its allocator counts, from the first tensor on.
    at::empty({1}, at::TensorOptions(at::kByte).device(device()));
  }
  c10::Device device() const override { return {c10::kPrivateUse1, index_}; }
  std::string device_name() const override {
    const char* chip = aclrtGetSocName();
    return chip ? chip : "Ascend";
  }

  std::string description() const override {
    const auto family = family_of(device_name());
    return fmt::format("{}{}, {} memory, torch_npu {}, CANN {}", device_name(),
                       family.empty() ? "" : fmt::format(" ({})", family),
                       text::bytes(memory_of_device().second), TITAN_TORCH_NPU_VERSION,
                       GetCANNVersion());
  }

  void seed(uint64_t seed) override {
    // at::manual_seed() asks torch_npu for a generator in a way that it does not answer.
    const auto set = [seed](at::Generator generator) {
      const std::lock_guard lock(generator.mutex());
      generator.set_current_seed(seed);
    };
    set(at::globalContext().defaultGenerator(c10::kCPU));
    for (int i = 0; i < count(); ++i) {
      set(at_npu::detail::getDefaultNPUGenerator(static_cast<c10::DeviceIndex>(i)));
    }
  }

  void set_deterministic(bool on) override {
    auto& context = at::globalContext();
    if (on) {
      // HCCL and the matrix products read them when they first run.
      env::set_default("HCCL_DETERMINISTIC", "true");
      env::set_default("CLOSE_MATMUL_K_SHIFT", "1");
    }
    context.setDeterministicAlgorithms(on, /*warn_only=*/false);
    context.setDeterministicFillUninitializedMemory(false);
  }

  void synchronize() override {
    select_here();
    // Waits for torch_npu's own launch queue, too; device_synchronize() does not.
    c10_npu::npuSynchronizeDevice();
  }

  MemoryStats memory() const override {
    const auto stats = allocator::getDeviceStats(index_);
    constexpr auto kAll = static_cast<size_t>(allocator::StatType::AGGREGATE);
    return {.allocated = stats.allocated_bytes[kAll].current,
            .allocated_peak = stats.allocated_bytes[kAll].peak,
            .reserved = stats.reserved_bytes[kAll].current,
            .reserved_peak = stats.reserved_bytes[kAll].peak,
            .capacity = static_cast<int64_t>(memory_fraction_ *
                                             static_cast<double>(memory_of_device().second)),
            .alloc_retries = stats.num_alloc_retries,
            .out_of_memory = stats.num_ooms};
  }
  void limit_memory(double fraction) override {
    memory_fraction_ = fraction;
    allocator::setMemoryFraction(fraction, index_);
  }
  void reset_peak_memory() override { allocator::resetPeakStats(index_); }
  void release_cached_memory() override { allocator::emptyCache(); }
  int64_t free_memory() const override {
    select_here();
    return memory_of_device().first;
  }

  PeakFlops peak_flops(c10::ScalarType) override { return peak_flops_of(device_name()); }
  bool has_streams() const override { return true; }
  std::unique_ptr<Graph> make_graph() override {
    return graph_problem().empty() ? std::make_unique<NpuGraph>() : nullptr;
  }
  // torch_npu's second form of the task queue allocates workspaces from another thread, outside of
  // the graph's pool.
  std::string graph_problem() const override {
    if (env::get("TASK_QUEUE_ENABLE").value_or("1") != "2") return "";
    return "TASK_QUEUE_ENABLE=2 excludes graphs: unset it or set it to 0";
  }

  c10::intrusive_ptr<c10d::Backend> make_process_group(
      const c10::intrusive_ptr<c10d::Store>& store, const ProcessGroupOptions& options) override {
    groups_.push_back(make_hccl_group(store, options));
    return groups_.back();
  }

  std::optional<std::string> health_check() override { return check_matrix_product(device()); }

 private:
  void select_here() const { c10_npu::set_device(index_); }

  // Free and whole memory in bytes.
  std::pair<int64_t, int64_t> memory_of_device() const {
    size_t free = 0, total = 0;
    check(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), "aclrtGetMemInfo");
    return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
  }

  c10::DeviceIndex index_ = 0;
  double memory_fraction_ = 1;
  // Kept so that the end of a group is decided here; see the destructor.
  std::vector<c10::intrusive_ptr<c10d::Backend>> groups_;
};

std::string unusable() {
  if (c10_npu::device_count() > 0) return "";
  const auto visible = env::get("ASCEND_RT_VISIBLE_DEVICES");
  return visible ? fmt::format("no Ascend NPU visible (ASCEND_RT_VISIBLE_DEVICES={})", *visible)
                 : "no Ascend NPU or no driver on this machine (npu-smi info shows them)";
}

}  // namespace
}  // namespace titan::device::npu

extern "C" __attribute__((visibility("default"))) const titan::device::Module*
titan_device_module() {
  static constexpr titan::device::Module kModule{
      .build = titan::device::module_build(),
      .device = "npu",
      .unusable = titan::device::npu::unusable,
      .open = []() -> std::unique_ptr<titan::device::Backend> {
        titan::device::npu::watch_the_end();
        return std::make_unique<titan::device::npu::NpuBackend>();
      },
      .close = titan::device::npu::close_cann,
      .tracing = titan::device::npu::cann_tracing,
  };
  return &kModule;
}
