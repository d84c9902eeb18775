// [profiling]: traces of the step and snapshots of the allocator.
#pragma once

#include <cstdint>
#include <string>

#include "config/field.h"

namespace titan::config {

struct Profiling {
  bool enable_profiling = false;
  std::string save_traces_folder = "profile_traces";
  int64_t profile_freq = 10;
  int64_t profiler_active = 1;
  int64_t profiler_warmup = 3;
  bool enable_memory_snapshot = false;
  std::string save_memory_snapshot_folder = "memory_snapshot";

  static constexpr void describe(auto&& field) {
    field("enable_profiling", &Profiling::enable_profiling,
          "write a trace of every profile_freq-th step");
    field("save_traces_folder", &Profiling::save_traces_folder,
          "folder of the traces, below job.dump_folder");
    field("profile_freq", &Profiling::profile_freq, "steps of one profiling cycle", at_least(1));
    field("profiler_active", &Profiling::profiler_active, "traced steps of a cycle", at_least(1));
    field("profiler_warmup", &Profiling::profiler_warmup, "warm-up steps before the traced ones",
          at_least(0));
    field("enable_memory_snapshot", &Profiling::enable_memory_snapshot,
          "write the history of the device allocator");
    field("save_memory_snapshot_folder", &Profiling::save_memory_snapshot_folder,
          "folder of the memory snapshots, below job.dump_folder");
  }
};
static_assert(complete<Profiling>(), "describe() of Profiling misses a member");

}  // namespace titan::config
