#include "config/compatibility.h"

#include <set>

#include "base/files.h"
#include "config/alias.h"
#include "config/config_fixture.h"
#include "config/help.h"
#include "config/schema.h"

namespace titan::config {
namespace {
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Compatibility, EveryKeyHasOneRowAndEveryRowAKey) {
  JobConfig config;
  const auto all = keys(config);
  std::set<std::string> rows;
  for (const auto& row : compatibility()) {
    EXPECT_TRUE(rows.insert(row.key).second) << row.key;
    EXPECT_NE(find(all, row.key), nullptr) << row.key;
  }
  for (const auto& key : all) EXPECT_TRUE(rows.contains(key.path)) << key.path;
  for (const auto& alias : aliases()) {
    EXPECT_EQ(find(all, alias.from), nullptr) << alias.from;
    EXPECT_EQ(alias.to != nullptr, alias.effect == AliasEffect::kRename) << alias.from;
    EXPECT_TRUE(!alias.to || find(all, alias.to)) << alias.from;
  }
  for (const auto& alias : yaml_aliases()) EXPECT_NE(find(all, alias.to), nullptr) << alias.from;
}

TEST(Compatibility, EveryLimitIsExplainedInBothLanguages) {
  for (const auto& row : compatibility()) {
    if (row.support == Support::kYes) continue;
    EXPECT_GT(std::string(row.note).size(), 5u) << row.key;
    EXPECT_GT(std::string(row.note_zh).size(), 5u) << row.key;
  }
}

// The example of a row is refused, or warned about, by name; the default of the key is not.
TEST(Compatibility, ConditionsFindTheirExampleAndNothingElse) {
  const JobConfig defaults;
  EXPECT_THAT(not_built(defaults), IsEmpty());
  EXPECT_THAT(without_effect(defaults), IsEmpty());
  for (const auto& row : compatibility()) {
    const bool refuses = row.support == Support::kPartly || row.support == Support::kNotBuilt;
    EXPECT_TRUE(!refuses || row.when) << row.key;
    if (!row.when) continue;
    const std::vector<std::string> words = {fmt::format("--{}={}", row.key, row.example)};
    const auto loaded = load(words);
    EXPECT_THAT(refuses ? loaded.not_built : loaded.warnings,
                Contains(AllOf(HasSubstr(row.key), HasSubstr(row.note))))
        << row.key;
    EXPECT_THAT(refuses ? loaded.warnings : loaded.not_built, IsEmpty()) << row.key;
  }
}

TEST(Compatibility, RunnableMeansNothingIsMissing) {
  const auto able = load(std::vector<std::string>{"--model.flavor", "8B",
                                                  "--parallelism.tensor_parallel_degree", "1"});
  EXPECT_NO_THROW(require_runnable(able));
  const auto unable = load(std::vector<std::string>{"--parallelism.expert_parallel_degree", "2",
                                                    "--model.name", "llama4"});
  try {
    require_runnable(unable);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("2 features"), HasSubstr("expert_parallel_degree = 2"),
                      HasSubstr("llama4"), HasSubstr("command line (--model.name)")));
  }
}

TEST(Compatibility, FlavorsThatNeedMoreThanDenseAttention) {
  EXPECT_TRUE(is_built_flavor("llama3", "debugmodel"));
  EXPECT_TRUE(is_built_flavor("llama3", "405B"));
  EXPECT_TRUE(is_built_flavor("qwen3", "0.6B"));
  EXPECT_TRUE(is_built_flavor("llama3", "debugmodel_flex_attn"));
  EXPECT_TRUE(is_built_flavor("llama3", "8B_varlen"));
  EXPECT_FALSE(is_built_flavor("qwen3", "debugmodel_moe"));
  EXPECT_FALSE(is_built_flavor("qwen3", "30B-A3B"));
}

TEST(Compatibility, CommittedPagesEqualTheTable) {
  const std::filesystem::path docs = std::filesystem::path(TITAN_SOURCE_DIR) / "docs";
  EXPECT_EQ(files::read(docs / "compatibility.md"), compatibility_page(Language::kEnglish))
      << "run: titan config table > docs/compatibility.md";
  EXPECT_EQ(files::read(docs / "compatibility.zh-CN.md"), compatibility_page(Language::kChinese))
      << "run: titan config table --language zh > docs/compatibility.zh-CN.md";
}

TEST(Help, SectionsAndKeysAreExplained) {
  EXPECT_THAT(help("training"),
              AllOf(HasSubstr("--training.steps (int, default 10000)"),
                    HasSubstr("--training.dataloader.num_workers"), Not(HasSubstr("--optimizer"))));
  EXPECT_THAT(help(""), HasSubstr("--npu.memory_fraction"));
  const std::vector<std::string> words = {"a.toml", "--help", "lr_scheduler"};
  EXPECT_THAT(train_help(words),
              AllOf(HasSubstr("usage: titan train"), HasSubstr("--lr_scheduler.decay_type"),
                    Not(HasSubstr("--optimizer.lr"))));
  EXPECT_THAT(explain("checkpoint.enable", nullptr), HasSubstr("--checkpoint.no-enable"));
  EXPECT_THAT(explain("--training.global-batch-size", nullptr), HasSubstr("or -1"));
  EXPECT_THAT(explain("training.seed", nullptr), HasSubstr("means debug.seed"));
  try {
    explain("trainin.step", nullptr);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'training.steps'?"));
  }
  const auto loaded = load(std::vector<std::string>{"training.steps=5"});
  EXPECT_THAT(explain("training.steps", &loaded),
              HasSubstr("here     5  (command line (training.steps))"));
}

}  // namespace
}  // namespace titan::config
