#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/process.h"

namespace titan::cli {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class ScheduleCommand : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("titan_cli_schedule_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  Outcome show(std::vector<std::string> words) const {
    words.insert(words.begin(), {"schedule", "show"});
    return run_titan(words, folder_);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
  std::string config_ = std::string(TITAN_SOURCE_DIR) + "/configs/llama3/debug_model.toml";
};

TEST_F(ScheduleCommand, ShowsThePictureAndWhatRanksHold) {
  const auto outcome = show({"--name", "zbvzerobubble", "--ranks", "2", "--microbatches", "4"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(StartsWith("ZBVZeroBubble: 2 ranks, 4 stages, 4 micro-batches\n"),
                    HasSubstr("rank 1 |.   1F0 2F0 "), HasSubstr("total: time 25, idle 4.0%")));
}

TEST_F(ScheduleCommand, FilesHoldThePictureAndTheOrder) {
  const auto svg = (folder_ / "a.svg").string(), csv = (folder_ / "a.csv").string();
  auto outcome = show({"--ranks=2", "--microbatches=2", "--svg", svg, "--write_csv", csv});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(read("a.csv"), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_THAT(read("a.svg"), StartsWith("<svg "));
  outcome = show({"--csv", csv, "--actions", "--gather", "step"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("rank 1: 1UNSHARD 1RECV_F0 1F0 1B0 1SEND_B0 "));
}

TEST_F(ScheduleCommand, AConfigGivesTheScheduleAndTheLayersOfEachStage) {
  const auto outcome = show({config_, "--parallelism.pipeline_parallel_degree", "2",
                             "--parallelism.pipeline_parallel_schedule=Interleaved1F1B",
                             "--training.local_batch_size=8"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(
      outcome.out,
      AllOf(StartsWith("Interleaved1F1B: 2 ranks, 4 stages, 8 micro-batches\n"),
            HasSubstr("0      0     tok_embeddings, layers.0\n"), HasSubstr("norm, output\n")));
}

TEST_F(ScheduleCommand, WhatIsWrongIsSaid) {
  auto outcome = show({"--name", "Interleaved1F1B", "--microbatches", "11"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("take 10 or 12 micro-batches"));
  outcome = show({"--microbatch", "11"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("microbatch"));
  outcome = show({config_, "--ranks", "2"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--parallelism.pipeline_parallel_degree N"));
  outcome = show({"--csv", (folder_ / "none.csv").string()});
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("none.csv"));
  outcome = show({"--gather", "sometimes"});
  EXPECT_EQ(outcome.exit_code, 2);
}

}  // namespace
}  // namespace titan::cli
