#include "observe/metrics_logger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "observe/temp_folder.h"

namespace titan::observe {
namespace {

StepMetrics logged_step(int64_t step, double time_s) {
  StepMetrics m;
  m.step = step;
  m.loss = 2.5;
  m.time_s = time_s;
  return m;
}

TEST(MetricsLogger, LogsFirstLastAndEveryNthStep) {
  const TempFolder folder;
  const MetricsLogger logger({.run_folder = folder.path(), .log_freq = 10, .total_steps = 25});
  std::vector<int64_t> logged;
  for (int64_t step = 1; step <= 25; ++step) {
    if (logger.should_log(step)) logged.push_back(step);
  }
  EXPECT_EQ(logged, (std::vector<int64_t>{1, 10, 20, 25}));
  const MetricsLogger resumed({.run_folder = folder.path() / "other",
                               .log_freq = 10,
                               .total_steps = 25,
                               .resumed_step = 13});
  EXPECT_TRUE(resumed.should_log(14));
  EXPECT_FALSE(resumed.should_log(15));
}

TEST(MetricsLogger, PrintsAndWritesTheSameStep) {
  const TempFolder folder;
  testing::internal::CaptureStdout();
  MetricsLogger logger({.run_folder = folder.path(), .total_steps = 2, .enable_tensorboard = true});
  logger.log_step(logged_step(1, 0.5));
  logger.log_validation({.step = 1, .loss = 2.25}, 0.75);
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_THAT(printed, testing::HasSubstr("step:  1  loss:  2.50000  grad_norm:"));
  EXPECT_THAT(printed, testing::HasSubstr("validate step:  1  loss:  2.2500"));
  const MetricsHistory history = read_metrics(logger.metrics_path());
  ASSERT_EQ(history.rows.size(), 1u);
  EXPECT_EQ(history.rows[0].val_loss, 2.25);
  EXPECT_TRUE(std::filesystem::is_directory(logger.tensorboard_path()));
}

TEST(MetricsLogger, TimeGoesOnOverAResume) {
  const TempFolder folder;
  testing::internal::CaptureStdout();
  {
    MetricsLogger logger({.run_folder = folder.path()});
    logger.log_step(logged_step(10, 40));
  }
  {
    MetricsLogger logger({.run_folder = folder.path(), .resumed_step = 10});
    logger.log_step(logged_step(11, 1.5));
    logger.log_validation({.step = 12, .loss = 2}, 2.5);
  }
  testing::internal::GetCapturedStdout();
  const MetricsHistory history = read_metrics(folder.path() / kMetricsFileName);
  ASSERT_EQ(history.rows.size(), 3u);
  EXPECT_DOUBLE_EQ(history.rows[1].time_s, 41.5);
  EXPECT_DOUBLE_EQ(history.rows[2].time_s, 42.5);
}

TEST(MetricsLogger, OtherRanksStaySilent) {
  const TempFolder folder;
  testing::internal::CaptureStdout();
  MetricsLogger logger({.run_folder = folder.path() / "run",
                        .writer = false,
                        .rank = 3,
                        .enable_tensorboard = true});
  logger.log_step(logged_step(1, 0.5));
  logger.log_validation({.step = 1, .loss = 2.25}, 0.75);
  logger.step_done(1);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "run"));
  EXPECT_TRUE(logger.metrics_path().empty());
}

TEST(MetricsLogger, EachRankMayHaveItsTensorBoardFolder) {
  const TempFolder folder;
  const MetricsLogger logger({.run_folder = folder.path(),
                              .writer = false,
                              .rank = 3,
                              .enable_tensorboard = true,
                              .save_for_all_ranks = true});
  EXPECT_EQ(logger.tensorboard_path().filename(), "rank_3");
}

}  // namespace
}  // namespace titan::observe
