// `titan doctor`'s measurements on devices: how fast memory moves, and `--all-reduce`: one process
// for each device, started by `titan launch`, adds up numbers whose sum is known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/backend.h"

namespace titan::cli {

// In bytes per second; 0: not measured.
struct MemorySpeed {
  double copy = 0;                    // on the device, bytes read and bytes written together
  double to_device = 0, to_host = 0;  // from and to pinned memory; not on a CPU
};
MemorySpeed measure_memory(device::Backend& backend);

struct AllReduceSize {
  int64_t bytes = 0;
  double seconds = 0;  // of the slowest rank
  double bus_speed =
      0;  // bytes per second on the busiest link: 2 (n - 1) / n of `bytes` in that time
};

// How far a rank came.
struct RankFacts {
  int64_t rank = 0;
  std::string device;  // "npu:3"; what was asked for until it is open
  int64_t stage = 0;   // counts up
  std::string doing;   // at that stage; "done" at the end
  std::string problem;
  MemorySpeed memory;
  std::vector<AllReduceSize> sizes;
};

struct AllReduceFacts {
  std::string device;   // "npu", "auto"
  std::string problem;  // empty: all sums are right
  std::vector<RankFacts> ranks;
};

struct AllReduceOptions {
  std::string device = "auto";
  std::vector<int64_t> devices;  // one rank for each
  double time_limit_s = 120;
};

// Returns within the time limit and some seconds, whatever the ranks do; all of them are gone then.
AllReduceFacts test_all_reduce(const AllReduceOptions& options);

// A rank of the above, which tells its state in `folder`. Throws what it finds.
void run_all_reduce_rank(const AllReduceOptions& options, const std::string& folder);

}  // namespace titan::cli
