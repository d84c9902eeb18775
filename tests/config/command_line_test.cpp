#include "config/command_line.h"

#include "config/config_fixture.h"

namespace titan::config {
namespace {
using testing::AllOf;
using testing::HasSubstr;

using CommandLineTest = ConfigFiles;

TEST_F(CommandLineTest, EveryFormOfAValue) {
  for (const Words& words : std::vector<Words>{{"--training.global_batch_size", "32"},
                                               {"--training.global_batch_size=32"},
                                               {"--training.global-batch-size", "32"},
                                               {"training.global_batch_size=32"},
                                               {"training.global-batch-size=32"}}) {
    EXPECT_EQ(load(words).config.training.global_batch_size, 32) << words[0];
  }
  EXPECT_EQ(load(Words{"--training.global_batch_size", "-1"}).config.training.global_batch_size,
            -1);
}

TEST_F(CommandLineTest, FlagsStandAloneAndAreNegatedInTheLastSegment) {
  EXPECT_TRUE(load(Words{"--checkpoint.enable"}).config.checkpoint.enable);
  for (const char* off :
       {"--checkpoint.no-last-save-model-only", "--checkpoint.no_last_save_model_only",
        "--checkpoint.last_save_model_only=false"}) {
    EXPECT_FALSE(load(Words{off}).config.checkpoint.last_save_model_only) << off;
  }
  const Words spelled = {"--checkpoint.last-save-model-only", "False", "--training.steps", "3"};
  EXPECT_FALSE(load(spelled).config.checkpoint.last_save_model_only);
  EXPECT_EQ(load(spelled).config.training.steps, 3);
  const Words nested = {"--quantize.linear.float8.no-emulate",
                        "--quantize.linear.float8.filter_fqns", "a,b"};
  EXPECT_EQ(load(nested).config.quantize.linear.float8.filter_fqns, (TextList{"a", "b"}));
  EXPECT_TRUE(load(Words{"--training.deterministic"}).config.debug.deterministic);
}

TEST_F(CommandLineTest, AFlagLeavesTheNextWordAlone) {
  const auto file = write("b.toml", "[training]\nsteps = 4\n");
  const auto loaded = load(Words{"--checkpoint.enable", file});
  EXPECT_TRUE(loaded.config.checkpoint.enable);
  EXPECT_EQ(loaded.config.training.steps, 4);
}

TEST_F(CommandLineTest, NoneClearsAnOptionalValue) {
  EXPECT_EQ(load_toml("[debug]\nseed = 4\n", {"--debug.seed", "None"}).config.debug.seed,
            std::nullopt);
  EXPECT_EQ(load(Words{"--parallelism.context_parallel_load_balancer=None"})
                .config.parallelism.context_parallel_load_balancer,
            std::nullopt);
  EXPECT_THAT(refusal({"--training.steps", "None"}), HasSubstr("expects an integer"));
}

TEST_F(CommandLineTest, TheConfigFileInEveryForm) {
  const auto file = write("b=1.toml", "[training]\nsteps = 4\n");
  for (const Words& words : std::vector<Words>{{file},
                                               {"--config", file},
                                               {"--config=" + file},
                                               {"--job.config_file", file},
                                               {"--job.config-file=" + file}}) {
    const auto loaded = load(words);
    EXPECT_EQ(loaded.config.training.steps, 4) << words[0];
    EXPECT_EQ(loaded.config.job.config_file, file);
  }
  EXPECT_THAT(refusal({file, "--config", file}), HasSubstr("one config file at a time"));
}

TEST_F(CommandLineTest, TheLastOfRepeatedOptionsWins) {
  EXPECT_EQ(load(Words{"--training.steps", "3", "--training.steps=5"}).config.training.steps, 5);
}

TEST_F(CommandLineTest, MistakesAreNamed) {
  EXPECT_THAT(refusal({"--training.steps"}),
              AllOf(HasSubstr("needs a value"), HasSubstr("an integer")));
  EXPECT_THAT(refusal({"--training.steps", "--checkpoint.enable"}),
              HasSubstr("--training.steps needs a value"));
  EXPECT_THAT(refusal({"--training.stepz", "5"}), HasSubstr("did you mean 'training.steps'?"));
  EXPECT_THAT(refusal({"--trainng.steps=5"}), HasSubstr("did you mean 'training.steps'?"));
  EXPECT_THAT(refusal({"--training.steps", "5.5"}),
              AllOf(HasSubstr("command line (--training.steps)"), HasSubstr("got \"5.5\"")));
  EXPECT_THAT(refusal({"-s", "5"}), HasSubstr("is no option"));
  EXPECT_THAT(refusal({"--job.config_file"}), HasSubstr("needs a value"));
  EXPECT_THAT(refusal({"steps=5"}), HasSubstr("unknown key 'steps'"));
  EXPECT_THAT(refusal({"--checkpoint.enable=maybe"}), HasSubstr("expects true or false"));
}

TEST_F(CommandLineTest, HelpIsSeenAnywhereAndMayNameASection) {
  JobConfig config;
  const auto all = keys(config);
  const auto result = read_command_line(Words{"a.toml", "--help", "training"}, all);
  EXPECT_TRUE(result.help);
  EXPECT_EQ(result.help_section, "training");
  EXPECT_TRUE(wants_help(Words{"--training.steps", "5", "-h"}));
  EXPECT_FALSE(wants_help(Words{"--training.steps", "5"}));
}

}  // namespace
}  // namespace titan::config
