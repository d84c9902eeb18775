// The configs of the source tree: all legal, none with an older name, and exactly the expected ones
// need what is not built.
#include <algorithm>
#include <map>

#include "base/files.h"
#include "config/config_fixture.h"

namespace titan::config {
namespace {
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const fs::path kConfigs = fs::path(TITAN_SOURCE_DIR) / "configs";

Loaded load_shipped(const std::string& name) {
  return load(std::vector<std::string>{(kConfigs / name).string()});
}

std::vector<std::string> shipped() {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(kConfigs)) {
    const auto extension = entry.path().extension();
    if (extension != ".toml" && extension != ".yaml") continue;
    names.push_back(fs::relative(entry.path(), kConfigs).string());
  }
  std::ranges::sort(names);
  return names;
}

TEST(ShippedConfigs, EveryFileIsLegal) {
  const auto names = shipped();
  EXPECT_GE(names.size(), 16u);
  for (const auto& name : names) EXPECT_NO_THROW(load_shipped(name)) << name;
}

TEST(ShippedConfigs, DenseModelsRun) {
  for (const char* name :
       {"llama2/llama2_7b.yaml", "llama3/debug_model.toml", "llama3/llama3_8b.toml",
        "llama3/llama3_70b.toml", "llama3/llama3_405b.toml", "qwen3/qwen3_0.6b.toml",
        "qwen3/qwen3_1.7b.toml", "qwen3/qwen3_32b.toml"}) {
    EXPECT_THAT(load_shipped(name).not_built, IsEmpty()) << name;
  }
}

TEST(ShippedConfigs, TheOthersNameWhatTheyNeed) {
  EXPECT_THAT(load_shipped("qwen3/qwen3_moe_debug.toml").not_built,
              ElementsAre(HasSubstr("model.flavor")));
  for (const char* name :
       {"deepseek_v3/debug_model.toml", "deepseek_v3/deepseek_v3_671b.toml",
        "gpt_oss/debug_model.toml", "llama4/debug_model.toml", "llama4/llama4_17bx128e.toml"}) {
    EXPECT_THAT(load_shipped(name).not_built, ElementsAre(HasSubstr("model.name"))) << name;
  }
}

TEST(ShippedConfigs, SpotValuesAreThoseUsersKnow) {
  const auto debug = load_shipped("llama3/debug_model.toml").config;
  EXPECT_EQ(debug.model.flavor, "debugmodel");
  EXPECT_EQ(debug.model.hf_assets_path, "./tests/assets/tokenizer");
  EXPECT_EQ(debug.training.dataset, "c4_test");
  EXPECT_EQ(debug.training.steps, 10);
  EXPECT_EQ(debug.lr_scheduler.warmup_steps, 2);
  EXPECT_EQ(debug.lr_scheduler.decay_ratio, 0.8);
  EXPECT_FALSE(debug.checkpoint.last_save_model_only);
  const auto large = load_shipped("llama3/llama3_8b.toml").config;
  EXPECT_EQ(large.optimizer.lr, 3e-4);
  EXPECT_EQ(large.training.seq_len, 8192);
  EXPECT_EQ(large.activation_checkpoint.selective_ac_option, "op");
  EXPECT_EQ(load_shipped("llama4/debug_model.toml").config.optimizer.eps, 1e-15);
}

TEST(ShippedConfigs, EveryFileSaysWhatItIs) {
  for (const auto& name : shipped()) {
    EXPECT_TRUE(files::read(kConfigs / name).starts_with("# "))
        << name << " has no comment at its top";
  }
}

}  // namespace
}  // namespace titan::config
