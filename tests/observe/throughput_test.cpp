#include "observe/throughput.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "base/error.h"

namespace titan::observe {
namespace {

void sleep_s(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

TEST(Throughput, CountsTokensOverTheIntervalAndByDevice) {
  Throughput throughput(
      {.flops_per_token = 2e9, .peak_flops = 1e12, .devices_per_replica = 2, .tokens_seen = 50});
  for (int i = 0; i < 4; ++i) {
    sleep_s(0.01);
    throughput.add_step(100, 400, 0.005);
  }
  StepMetrics m;
  throughput.fill(m);
  ASSERT_GT(m.time_s, 0.04);
  // time_s and the interval end at the same moment up to a few microseconds.
  EXPECT_NEAR(m.tokens_per_second * m.time_s * 2 / 400, 1, 0.02);
  EXPECT_NEAR(m.end_to_end_s * 4 / m.time_s, 1, 0.02);
  EXPECT_DOUBLE_EQ(m.data_wait_s, 0.005);
  EXPECT_EQ(m.tokens_seen, 50 + 1600);
  EXPECT_DOUBLE_EQ(m.tflops, m.tokens_per_second * 2e9 / 1e12);
  EXPECT_DOUBLE_EQ(m.mfu, 100 * m.tokens_per_second * 2e9 / 1e12);
}

TEST(Throughput, StartsAnewAfterEachLoggedStep) {
  Throughput throughput({});
  throughput.add_step(1000000, 1000000, 0);
  StepMetrics first;
  throughput.fill(first);
  sleep_s(0.02);
  throughput.add_step(10, 10, 0.001);
  StepMetrics second;
  throughput.fill(second);
  EXPECT_LE(second.tokens_per_second, 10 / 0.02);
  EXPECT_DOUBLE_EQ(second.data_wait_s, 0.001);
  EXPECT_EQ(second.tokens_seen, 1000010);
  EXPECT_TRUE(std::isnan(second.mfu));
}

TEST(Throughput, LeavesPausesOutOfRatesButNotOutOfTime) {
  Throughput throughput({});
  throughput.add_step(10, 10, 0);
  throughput.pause();
  sleep_s(0.1);
  throughput.resume();
  sleep_s(0.01);
  throughput.add_step(10, 10, 0);
  StepMetrics m;
  throughput.fill(m);
  EXPECT_GT(m.time_s, 0.11);
  EXPECT_LT(m.end_to_end_s * 2, m.time_s - 0.09);
  EXPECT_GT(throughput.average_tokens_per_second(), 10 / (m.time_s - 0.09));
}

TEST(Throughput, AverageLeavesTheFirstStepOut) {
  Throughput throughput({});
  sleep_s(0.1);
  throughput.add_step(10, 10, 0);
  EXPECT_TRUE(std::isnan(throughput.average_tokens_per_second()));
  sleep_s(0.01);
  throughput.add_step(10, 10, 0);
  EXPECT_GT(throughput.average_tokens_per_second(), 10 / 0.1);
  EXPECT_LE(throughput.average_tokens_per_second(), 10 / 0.01);
}

TEST(Throughput, RefusesPausesThatDoNotMatch) {
  Throughput throughput({});
  EXPECT_THROW(throughput.resume(), InternalError);
  throughput.pause();
  EXPECT_THROW(throughput.pause(), InternalError);
}

}  // namespace
}  // namespace titan::observe
