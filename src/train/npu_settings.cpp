#include "train/npu_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace titan::train {
namespace {

using Settings = std::vector<device::npu::Setting>;

void add_allocator(Settings& settings, const config::Npu& npu) {
  const bool splits = npu.max_split_size_mb || npu.garbage_collection_threshold;
  if (!npu.expandable_segments && !splits) return;
  std::vector<std::string> parts, keys;
  if (npu.expandable_segments.value_or(!splits)) parts.emplace_back("expandable_segments:True");
  if (npu.expandable_segments) keys.emplace_back("expandable_segments");
  if (npu.max_split_size_mb) {
    parts.push_back(fmt::format("max_split_size_mb:{}", *npu.max_split_size_mb));
    keys.emplace_back("max_split_size_mb");
  }
  if (npu.garbage_collection_threshold) {
    parts.push_back(
        fmt::format("garbage_collection_threshold:{}", *npu.garbage_collection_threshold));
    keys.emplace_back("garbage_collection_threshold");
  }
  if (parts.empty()) parts.emplace_back("expandable_segments:False");
  settings.push_back(
      {"PYTORCH_NPU_ALLOC_CONF", text::join(parts, ","), "[npu] " + text::join(keys, ", ")});
}

// HCCL takes no shorter one.
constexpr int64_t kLeastConnect_s = 120;

void add_time_limits(Settings& settings, const config::Npu& npu, const config::Comm& comm) {
  const auto connect = npu.hccl_connect_timeout_seconds;
  settings.push_back(
      {"HCCL_CONNECT_TIMEOUT",
       std::to_string(connect.value_or(std::max(comm.init_timeout_seconds, kLeastConnect_s))),
       connect ? "[npu] hccl_connect_timeout_seconds" : "[comm] init_timeout_seconds"});
  const auto exec = npu.hccl_exec_timeout_seconds;
  settings.push_back({"HCCL_EXEC_TIMEOUT",
                      std::to_string(exec.value_or(
                          std::max(comm.init_timeout_seconds, comm.train_timeout_seconds))),
                      exec ? "[npu] hccl_exec_timeout_seconds" : "[comm]"});
}

}  // namespace

Settings npu_settings(const config::JobConfig& config) {
  const auto& npu = config.npu;
  Settings settings;
  if (npu.route != config::Npu{}.route) {
    settings.push_back({"TITAN_NPU_ROUTE", npu.route, "[npu] route"});
  }
  add_allocator(settings, npu);
  if (npu.task_queue) {
    settings.push_back({"TASK_QUEUE_ENABLE", std::to_string(*npu.task_queue), "[npu] task_queue"});
  } else if (config.compile.enable) {
    // The queue's second form makes work space outside of a graph's pool.
    settings.push_back({"TASK_QUEUE_ENABLE", "0", "[compile] enable"});
  }
  if (npu.multi_stream_reuse) {
    settings.push_back({"MULTI_STREAM_MEMORY_REUSE", std::to_string(*npu.multi_stream_reuse),
                        "[npu] multi_stream_reuse"});
  }
  if (npu.cpu_affinity) {
    settings.push_back({"CPU_AFFINITY_CONF", *npu.cpu_affinity, "[npu] cpu_affinity"});
  }
  if (npu.launch_blocking) {
    settings.push_back({"ASCEND_LAUNCH_BLOCKING", "1", "[npu] launch_blocking"});
  }
  add_time_limits(settings, npu, config.comm);
  if (config.debug.deterministic) {
    settings.push_back({"HCCL_DETERMINISTIC", "true", "[debug] deterministic"});
    settings.push_back({"CLOSE_MATMUL_K_SHIFT", "1", "[debug] deterministic"});
  }
  return settings;
}

}  // namespace titan::train
