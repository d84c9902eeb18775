#include "device/cpu/threads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "base/env.h"
#include "base/error.h"
#include "device/cpu/host.h"

namespace titan::device {
namespace {

// From this many hardware threads on, two of one core only get in each other's way in matrix
// products. Below, the machine is most likely a virtual one, whose topology says little.
constexpr int64_t kCountCoresFrom = 8;

ThreadChoice checked(int64_t count, const char* source) {
  if (count < 1)
    throw Error("[device] {} = {} is no number of threads — use 1 or more", source, count);
  return {count, source};
}

}  // namespace

ThreadChoice choose_threads(std::optional<int64_t> configured) {
  if (configured) return checked(*configured, "device.threads");
  for (const char* name : {"TITAN_THREADS", "OMP_NUM_THREADS"}) {
    if (const auto value = env::get_int(name)) return checked(*value, name);
  }
  int64_t cores = host::affinity_cores();
  if (cores >= kCountCoresFrom) cores = host::affinity_physical_cores();
  std::string reason = cores == 1 ? "1 core" : fmt::format("{} cores", cores);
  if (const auto quota = host::cpu_quota(); quota && *quota < static_cast<double>(cores)) {
    cores = std::max<int64_t>(1, std::llround(*quota));
    reason = fmt::format("CPU quota of {:.1f} cores", *quota);
  }
  const int64_t ranks = env::get_int("LOCAL_WORLD_SIZE").value_or(1);
  if (ranks > 1) {
    cores = std::max<int64_t>(1, cores / ranks);
    reason += fmt::format(" shared by {} ranks", ranks);
  }
  return {cores, reason};
}

void use_threads(const ThreadChoice& choice) {
  at::set_num_threads(static_cast<int>(choice.count));
}

}  // namespace titan::device
