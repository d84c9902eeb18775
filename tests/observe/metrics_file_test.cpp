#include "observe/metrics_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "observe/temp_folder.h"

namespace titan::observe {
namespace {

StepMetrics metrics_of(int64_t step, double loss) {
  StepMetrics m;
  m.step = step;
  m.loss = loss;
  m.grad_norm = 1.5;
  m.lr = 1e-3;
  m.time_s = 0.1 * static_cast<double>(step);
  m.tokens_seen = 100 * step;
  return m;
}

std::vector<int64_t> steps_of(const MetricsHistory& history) {
  std::vector<int64_t> steps;
  for (const auto& row : history.rows) steps.push_back(row.step);
  return steps;
}

TEST(MetricsFile, HoldsAnObjectPerLineWithThePromisedKeys) {
  const TempFolder folder;
  {
    MetricsFile file(folder.path(), 0);
    StepMetrics m = metrics_of(1, 7.5);
    m.mfu = std::numeric_limits<double>::infinity();
    file.append(m);
  }
  const std::string content = files::read(folder.path() / "metrics.jsonl");
  ASSERT_EQ(content.find('\n'), content.size() - 1);
  const auto row = nlohmann::json::parse(content);
  for (const char* key :
       {"step", "loss", "grad_norm", "lr", "tokens_per_second", "mfu", "memory_gib", "data_wait_s",
        "time_s", "max_loss", "tflops", "memory_percent", "step_time_s", "tokens_seen"}) {
    EXPECT_TRUE(row.contains(key)) << key;
  }
  EXPECT_EQ(row["loss"], 7.5);
  EXPECT_TRUE(row["mfu"].is_null());
  EXPECT_FALSE(row.contains("val_loss"));
}

TEST(MetricsFile, ValidationJoinsTheRowOfItsStep) {
  const TempFolder folder;
  MetricsFile file(folder.path(), 0);
  file.append(metrics_of(1, 7.5));
  file.add_validation({.step = 1, .loss = 7.25, .bits_per_byte = 3.5}, 0.2);
  file.append(metrics_of(2, 7.0));
  file.add_validation({.step = 3, .loss = 6.75}, 0.4);  // validated, not logged
  file.append(metrics_of(4, 6.5));
  std::ifstream lines(folder.path() / "metrics.jsonl");
  std::string line;
  std::vector<nlohmann::json> rows;
  while (std::getline(lines, line)) rows.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0]["val_loss"], 7.25);
  EXPECT_EQ(rows[0]["val_bits_per_byte"], 3.5);
  EXPECT_EQ(rows[0]["loss"], 7.5);
  EXPECT_FALSE(rows[1].contains("val_loss"));
  EXPECT_EQ(rows[2]["val_loss"], 6.75);
  EXPECT_FALSE(rows[2].contains("loss"));
  EXPECT_EQ(rows[3]["step"], 4);
}

TEST(MetricsFile, IsReadBackAsWritten) {
  const TempFolder folder;
  {
    MetricsFile file(folder.path(), 0);
    file.append(metrics_of(1, 7.5));
    file.add_validation({.step = 1, .loss = 7.25}, 0.2);
    file.append(metrics_of(10, kUnknown));
  }
  const MetricsHistory history = read_metrics(folder.path() / "metrics.jsonl");
  ASSERT_EQ(steps_of(history), (std::vector<int64_t>{1, 10}));
  EXPECT_EQ(history.skipped_lines, 0);
  EXPECT_EQ(history.rows[0].loss, 7.5);
  EXPECT_EQ(history.rows[0].lr, 1e-3);
  EXPECT_EQ(history.rows[0].tokens_seen, 100);
  EXPECT_EQ(history.rows[0].val_loss, 7.25);
  EXPECT_TRUE(std::isnan(history.rows[1].loss));
}

TEST(MetricsFile, ResumeDropsTheStepsThatRunAgain) {
  const TempFolder folder;
  {
    MetricsFile file(folder.path(), 0);
    for (int64_t step = 1; step <= 6; ++step)
      file.append(metrics_of(step, 10 - static_cast<double>(step)));
  }
  std::ofstream(folder.path() / "metrics.jsonl", std::ios::app)
      << "{\"step\":7,\"lo";  // killed while writing
  {
    MetricsFile file(folder.path(), 4);
    EXPECT_EQ(file.dropped_rows(), 3);
    EXPECT_DOUBLE_EQ(file.resumed_time_s(), 0.4);
    file.append(metrics_of(5, 1.25));
    file.append(metrics_of(6, 1.0));
  }
  const MetricsHistory history = read_metrics(folder.path() / "metrics.jsonl");
  EXPECT_EQ(history.skipped_lines, 0);
  ASSERT_EQ(steps_of(history), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(history.rows[3].loss, 6.0);
  EXPECT_EQ(history.rows[4].loss, 1.25);
}

TEST(MetricsFile, ValidationAfterAResumeJoinsTheKeptStepWhenRead) {
  const TempFolder folder;
  {
    MetricsFile file(folder.path(), 0);
    file.append(metrics_of(4, 6.0));
  }
  {
    MetricsFile file(folder.path(), 4);
    file.add_validation({.step = 4, .loss = 5.5}, 0.1);
  }
  const MetricsHistory history = read_metrics(folder.path() / "metrics.jsonl");
  ASSERT_EQ(history.rows.size(), 1u);
  EXPECT_EQ(history.rows[0].loss, 6.0);
  EXPECT_EQ(history.rows[0].val_loss, 5.5);
}

TEST(MetricsFile, NewRunKeepsTheOldFileUnderAnotherName) {
  const TempFolder folder;
  for (int run = 0; run < 3; ++run) {
    MetricsFile file(folder.path(), 0);
    file.append(metrics_of(1, run));
  }
  EXPECT_EQ(read_metrics(folder.path() / "metrics.1.jsonl").rows[0].loss, 0);
  EXPECT_EQ(read_metrics(folder.path() / "metrics.2.jsonl").rows[0].loss, 1);
  EXPECT_EQ(read_metrics(folder.path() / "metrics.jsonl").rows[0].loss, 2);
}

TEST(MetricsFile, ReaderSkipsWhatIsNoRowAndCountsIt) {
  const TempFolder folder;
  std::ofstream(folder.path() / "metrics.jsonl")
      << "{\"step\":1,\"loss\":2.0}\n"
      << "garbage\n[1,2]\n{\"loss\":3}\n{\"step\":\"x\"}\n\n"
      << "{\"step\":2,\"loss\":null}\n"
      << "{\"step\":1,\"loss\":4.0}\n"
      << "{\"step\":3,\"lo";
  const MetricsHistory history = read_metrics(folder.path() / "metrics.jsonl");
  ASSERT_EQ(steps_of(history), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(history.skipped_lines, 5);
  EXPECT_EQ(history.rows[0].loss, 4.0);
  EXPECT_TRUE(std::isnan(history.rows[1].loss));
}

TEST(MetricsFile, NamesAFolderThatCannotBeMade) {
  const TempFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  try {
    MetricsFile file(folder.path() / "file" / "run", 0);
    FAIL() << "made a folder below a file";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr((folder.path() / "file" / "run").string()));
  }
}

}  // namespace
}  // namespace titan::observe
