#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/process.h"

namespace titan::cli {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ConfigCommand : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("titan_cli_config_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  Outcome titan(std::vector<std::string> words) const {
    words.insert(words.begin(), "config");
    return run_titan(words, folder_);
  }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name) << content;
    return (folder_ / name).string();
  }

  fs::path folder_;
  std::string configs_ = std::string(TITAN_SOURCE_DIR) + "/configs/";
};

TEST_F(ConfigCommand, CheckPassesLegalFilesAndListsWhatIsMissing) {
  const auto outcome =
      titan({"check", configs_ + "llama3/debug_model.toml", configs_ + "llama4/debug_model.toml"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("debug_model.toml: legal\n"),
                                 HasSubstr("legal, 1 not built yet"), HasSubstr("model.name")));
}

TEST_F(ConfigCommand, RunnableRefusesWhatIsMissing) {
  EXPECT_EQ(titan({"check", "--runnable", configs_ + "llama3/debug_model.toml"}).exit_code, 0);
  const auto outcome = titan({"check", configs_ + "llama3/llama3_405b.toml", "--runnable",
                              "--quantize.linear.float8.recipe_name=rowwise"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, StartsWith("titan: [config] "));
  EXPECT_EQ(titan({"check", "--runnable", configs_ + "llama3/llama3_405b.toml"}).exit_code, 0);
}

TEST_F(ConfigCommand, CheckRefusesIllegalFilesAndStillChecksTheOthers) {
  const auto bad = write("bad.toml", "[training]\nstepz = 1\n");
  const auto outcome = titan({"check", bad, configs_ + "llama3/debug_model.toml"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("bad.toml:2"), HasSubstr("did you mean 'training.steps'?")));
  EXPECT_THAT(outcome.out, HasSubstr("debug_model.toml: legal"));
  EXPECT_EQ(titan({"check"}).exit_code, 2);
}

TEST_F(ConfigCommand, CheckKnowsTheFlavorsOfBuiltFamilies) {
  const auto outcome =
      titan({"check", configs_ + "llama3/debug_model.toml", "--model.flavor", "debugmodle"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("debugmodel"));
}

TEST_F(ConfigCommand, TrainHelpNamesTheKeysOfASection) {
  const auto outcome = run_titan({"train", "--help", "training"}, folder_);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("--training.steps"), Not(HasSubstr("--optimizer.lr"))));
  EXPECT_EQ(run_titan({"train", "--help", "trainin"}, folder_).exit_code, 2);
}

TEST_F(ConfigCommand, ShowGivesOriginsAndReadsBack) {
  const auto shown = titan({"show", configs_ + "llama3/debug_model.toml", "--training.steps", "5"});
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr("steps = 5"), HasSubstr("# command line (--training.steps)"),
                    HasSubstr("debug_model.toml:"), HasSubstr("# default")));
  EXPECT_EQ(titan({"check", write("shown.toml", shown.out)}).exit_code, 0);
  const auto given = titan({"show", "--given", "training.steps=5"});
  EXPECT_THAT(given.out, AllOf(HasSubstr("steps = 5"), Not(HasSubstr("default"))));
  EXPECT_THAT(titan({"show", "--json"}).out, StartsWith("{\n  \"job\": {"));
}

TEST_F(ConfigCommand, ExplainNamesTheNearestKey) {
  EXPECT_THAT(titan({"explain", "training.steps"}).out, HasSubstr("an integer, at least 1"));
  EXPECT_THAT(titan({"explain", "training.steps", configs_ + "llama3/debug_model.toml"}).out,
              HasSubstr("here     10"));
  const auto wrong = titan({"explain", "training.stepz"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean 'training.steps'?"));
  EXPECT_THAT(titan({"explain"}).out, HasSubstr("lr_scheduler"));
}

TEST_F(ConfigCommand, WrongActionsAreRefused) {
  EXPECT_EQ(titan({"--help"}).exit_code, 0);
  EXPECT_EQ(titan({}).exit_code, 2);
  const auto wrong = titan({"chek"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean 'check'?"));
  EXPECT_EQ(titan({"table", "--language", "fr"}).exit_code, 2);
}

}  // namespace
}  // namespace titan::cli
