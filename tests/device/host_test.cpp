#include "device/cpu/host.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace titan::device::host {
namespace {

TEST(CpuMax, QuotaOverPeriodAndNothingForMax) {
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max("max 100000"), std::nullopt);
  EXPECT_EQ(parse_cpu_max("-1 100000"), std::nullopt);
  EXPECT_EQ(parse_cpu_max(" "), std::nullopt);
  EXPECT_EQ(parse_cpu_max(""), std::nullopt);
}

TEST(Cores, FollowTheAffinityMask) {
  const int64_t before = affinity_cores();
  std::thread([before] {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(sched_getcpu(), &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
    EXPECT_EQ(affinity_cores(), 1);
    EXPECT_EQ(affinity_physical_cores(), 1);
    EXPECT_GE(before, 1);
  }).join();
  EXPECT_EQ(affinity_cores(), before);
  EXPECT_LE(affinity_physical_cores(), before);
}

TEST(Memory, PeakSeesAnAllocationAndResetForgetsIt) {
  constexpr size_t kBytes = 256 << 20;
  const int64_t before = process_memory().resident;
  {
    const std::vector<char> block(kBytes, 1);
    EXPECT_GE(process_memory().resident, before + static_cast<int64_t>(kBytes) * 9 / 10);
  }
  trim_heap();
  const ProcessMemory after = process_memory();
  EXPECT_GE(after.resident_peak, before + static_cast<int64_t>(kBytes) * 9 / 10);
  EXPECT_LT(after.resident, after.resident_peak - static_cast<int64_t>(kBytes) / 2);
  reset_peak_memory();
  if (access("/proc/self/clear_refs", W_OK) == 0) {
    EXPECT_LT(process_memory().resident_peak,
              after.resident_peak - static_cast<int64_t>(kBytes) / 2);
  }
}

TEST(Memory, CapacityHoldsWhatIsInUse) {
  EXPECT_GT(memory_capacity(), process_memory().resident);
  EXPECT_GT(memory_available(), 0);
  EXPECT_LE(memory_available(), memory_capacity());
}

TEST(Cpu, HasAName) { EXPECT_FALSE(cpu_name().empty()); }

}  // namespace
}  // namespace titan::device::host
