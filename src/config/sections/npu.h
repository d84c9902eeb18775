// [npu] is titan's own: settings of Ascend devices. Most stand for an environment variable of
// torch_npu or HCCL; one that the user has exported wins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/field.h"

namespace titan::config {

struct Npu {
  std::string route = "shim";
  std::optional<double> memory_fraction;
  std::optional<int64_t> zero_stage;
  std::optional<bool> expandable_segments;
  std::optional<int64_t> max_split_size_mb;
  std::optional<double> garbage_collection_threshold;
  std::optional<int64_t> task_queue;
  std::optional<int64_t> multi_stream_reuse;
  std::optional<std::string> cpu_affinity;
  bool launch_blocking = false;
  std::optional<int64_t> hccl_connect_timeout_seconds;
  std::optional<int64_t> hccl_exec_timeout_seconds;

  static constexpr void describe(auto&& field) {
    field("route", &Npu::route,
          "TITAN_NPU_ROUTE: torch_npu without an interpreter (shim) or in an embedded one (python; "
          "its packages: TITAN_NPU_PYTHON)",
          one_of("shim|python"));
    field("memory_fraction", &Npu::memory_fraction,
          "share of the device memory the allocator may take",
          Check{.least = 0, .most = 1, .open = true});
    field("zero_stage", &Npu::zero_stage,
          "ZeRO stage: 0 replicate, 1 shard optimizer states, 2 also gradients, 3 also parameters",
          between(0, 3));
    field("expandable_segments", &Npu::expandable_segments,
          "segments of the allocator grow; absent: true unless one of the next two is set");
    field("max_split_size_mb", &Npu::max_split_size_mb,
          "larger blocks of the allocator are not split; not with expandable segments",
          at_least(20));
    field("garbage_collection_threshold", &Npu::garbage_collection_threshold,
          "share of the memory above which unused blocks are given back; not with expandable "
          "segments",
          Check{.least = 0, .most = 1, .open = true, .open_end = true});
    field("task_queue", &Npu::task_queue,
          "TASK_QUEUE_ENABLE: 0 launch from the calling thread, 1 from another, 2 that one also "
          "makes the work space; absent: 2",
          between(0, 2));
    field("multi_stream_reuse", &Npu::multi_stream_reuse,
          "MULTI_STREAM_MEMORY_REUSE: how memory that several streams used is reused; absent: 1",
          between(0, 3));
    field("cpu_affinity", &Npu::cpu_affinity,
          "CPU_AFFINITY_CONF: how torch_npu binds its threads to cores; absent: not at all");
    field("launch_blocking", &Npu::launch_blocking,
          "ASCEND_LAUNCH_BLOCKING: wait for every operator, to learn which one fails");
    field("hccl_connect_timeout_seconds", &Npu::hccl_connect_timeout_seconds,
          "HCCL_CONNECT_TIMEOUT; absent: comm.init_timeout_seconds", between(120, 7200));
    field("hccl_exec_timeout_seconds", &Npu::hccl_exec_timeout_seconds,
          "HCCL_EXEC_TIMEOUT; absent: the longer one of comm's two", at_least(1));
  }
};
static_assert(complete<Npu>(), "describe() of Npu misses a member");

}  // namespace titan::config
