#include "device/cuda/peak_flops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace titan::device::cuda {
namespace {

TEST(PeakFlops, KnowsTheGpusByTheDriversNames) {
  EXPECT_EQ(peak_flops_of("NVIDIA A100-SXM4-80GB").per_second, 312e12);
  EXPECT_EQ(peak_flops_of("NVIDIA H100 80GB HBM3").per_second, 989e12);
  EXPECT_EQ(peak_flops_of("NVIDIA H100 NVL").per_second, 835e12);
  EXPECT_EQ(peak_flops_of("NVIDIA H100 PCIe").per_second, 756e12);
  EXPECT_EQ(peak_flops_of("NVIDIA H200").per_second, 989e12);
  EXPECT_EQ(peak_flops_of("NVIDIA H20").per_second, 148e12);
  EXPECT_EQ(peak_flops_of("NVIDIA B200").per_second, 2.25e15);
  EXPECT_EQ(peak_flops_of("NVIDIA GB200").per_second, 2.5e15);
  EXPECT_EQ(peak_flops_of("NVIDIA L40S").per_second, 362e12);
}

TEST(PeakFlops, SaysWhenItDoesNotKnow) {
  EXPECT_EQ(peak_flops_of("NVIDIA GeForce RTX 9090").per_second, 312e12);
  EXPECT_THAT(peak_flops_of("NVIDIA GeForce RTX 9090").source, testing::HasSubstr("unknown GPU"));
}

}  // namespace
}  // namespace titan::device::cuda
