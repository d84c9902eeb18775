#include "observe/progress.h"

#include <gtest/gtest.h>

namespace titan::observe {
namespace {

TEST(TimeLeft, LeavesTheSlowFirstStepOut) {
  TimeLeft left(102);
  left.step_done(1, 30.0);  // half a minute of warming up
  EXPECT_EQ(left.seconds(), std::nullopt);
  left.step_done(2, 30.5);
  ASSERT_TRUE(left.seconds());
  EXPECT_NEAR(*left.seconds(), 50.0, 1e-9);
}

TEST(TimeLeft, FollowsAChangeOfPace) {
  TimeLeft left(1000);
  double now = 0;
  for (int64_t step = 1; step <= 100; ++step) left.step_done(step, now += 1.0);
  EXPECT_NEAR(*left.seconds(), 900, 1e-6);
  for (int64_t step = 101; step <= 500; ++step) left.step_done(step, now += 0.1);
  EXPECT_NEAR(*left.seconds(), 50, 1);
}

TEST(TimeLeft, IsZeroAtTheEndAndBehindIt) {
  TimeLeft left(3);
  for (int64_t step = 1; step <= 4; ++step) left.step_done(step, static_cast<double>(step));
  EXPECT_EQ(left.seconds(), 0.0);
}

TEST(TimeLeft, CountsFromTheResumedStep) {
  TimeLeft left(100);
  left.step_done(81, 5);
  left.step_done(82, 7);
  EXPECT_NEAR(*left.seconds(), 36, 1e-9);
}

TEST(Progress, SaysStepShareTimeLeftAndElapsed) {
  EXPECT_EQ(progress_text(240, 2400, 162.0, 18.3),
            "step 240/2,400 (10.0%)  eta 2m42s  elapsed 18s");
  EXPECT_EQ(progress_text(1, 2400, std::nullopt, 0.5), "step 1/2,400 (0.0%)  elapsed 0.50s");
  EXPECT_EQ(progress_text(7, 0, 3.0, 12), "step 7  elapsed 12s");
}

TEST(Progress, DrawsAStatusThatTheNextLineOverwrites) {
  testing::internal::CaptureStdout();
  {
    Progress progress({.total_steps = 10, .on_terminal = true});
    progress.step_done(1);
    progress.step_done(2);  // too soon to be drawn again
  }
  const std::string drawn = testing::internal::GetCapturedStdout();
  EXPECT_EQ(drawn.find("step 2"), std::string::npos);
  EXPECT_EQ(drawn.substr(0, 8), "\033[2Kstep");
  EXPECT_EQ(drawn.find('\n'), std::string::npos);
  EXPECT_EQ(drawn.substr(drawn.size() - 5), "\r\033[2K");
}

TEST(Progress, PrintsPlainLinesNowAndThenWithoutATerminal) {
  testing::internal::CaptureStdout();
  Progress quiet({.total_steps = 10, .on_terminal = false});
  for (int64_t step = 1; step <= 5; ++step) quiet.step_done(step);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  testing::internal::CaptureStdout();
  Progress eager({.total_steps = 10, .on_terminal = false, .line_every_s = 0});
  eager.step_done(9);
  eager.step_done(10);  // the last step needs no progress
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_NE(printed.find("progress: step 9/10 (90.0%)"), std::string::npos);
  EXPECT_EQ(printed.find("step 10"), std::string::npos);
  EXPECT_EQ(printed.find('\033'), std::string::npos);
}

}  // namespace
}  // namespace titan::observe
