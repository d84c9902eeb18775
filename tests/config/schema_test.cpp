#include "config/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace titan::config {
namespace {
using testing::HasSubstr;

const Key& key_of(const std::vector<Key>& all, std::string_view path) {
  const Key* key = find(all, path);
  if (!key) throw std::runtime_error("no key " + std::string(path));
  return *key;
}

TEST(Schema, EveryKeyHasOneNameAndAHelp) {
  JobConfig config;
  std::set<std::string> seen;
  for (const auto& key : keys(config)) {
    EXPECT_TRUE(seen.insert(key.path).second) << key.path;
    EXPECT_GT(std::string(key.help).size(), 10u) << key.path;
  }
  EXPECT_GE(seen.size(), 147u);
}

TEST(Schema, DefaultsSatisfyTheirOwnChecks) {
  JobConfig config;
  for (const auto& key : keys(config)) {
    if (std::holds_alternative<None>(get(key))) continue;
    if (key.path == "parallelism.pipeline_parallel_schedule_csv") continue;
    EXPECT_EQ(assign(key, get(key)), std::nullopt) << key.path;
  }
}

TEST(Schema, WrongTypesAreNamedAndNothingIsStored) {
  JobConfig config;
  const auto all = keys(config);
  const auto problem = assign(key_of(all, "training.steps"), std::string("ten"));
  ASSERT_TRUE(problem);
  EXPECT_THAT(*problem, HasSubstr("expects an integer, at least 1, but got \"ten\" (a text)"));
  EXPECT_TRUE(assign(key_of(all, "training.steps"), 1.5));
  EXPECT_TRUE(assign(key_of(all, "training.steps"), true));
  EXPECT_TRUE(assign(key_of(all, "training.steps"), None{}));
  EXPECT_TRUE(assign(key_of(all, "checkpoint.enable"), int64_t{1}));
  EXPECT_EQ(config.training.steps, 10000);
  EXPECT_FALSE(config.checkpoint.enable);
  EXPECT_FALSE(assign(key_of(all, "training.max_norm"), int64_t{2}));
  EXPECT_EQ(config.training.max_norm, 2.0);
}

TEST(Schema, LimitsAndTheirExceptions) {
  JobConfig config;
  const auto all = keys(config);
  EXPECT_THAT(*assign(key_of(all, "training.steps"), int64_t{-3}),
              HasSubstr("at least 1, but got -3"));
  EXPECT_FALSE(assign(key_of(all, "training.global_batch_size"), int64_t{-1}));
  EXPECT_TRUE(assign(key_of(all, "training.global_batch_size"), int64_t{0}));
  EXPECT_TRUE(assign(key_of(all, "checkpoint.keep_latest_k"), int64_t{1}));
  EXPECT_FALSE(assign(key_of(all, "checkpoint.keep_latest_k"), int64_t{0}));
  EXPECT_TRUE(assign(key_of(all, "training.max_norm"), 0.0));
  EXPECT_THAT(*assign(key_of(all, "lr_scheduler.decay_type"), std::string("cosin")),
              HasSubstr("did you mean \"cosine\"?"));
  EXPECT_TRUE(
      assign(key_of(all, "checkpoint.exclude_from_loading"), TextList{"model", "optimiser"}));
}

TEST(Schema, NumbersTooLargeForTheirProductsAreRefused) {
  JobConfig config;
  const auto all = keys(config);
  EXPECT_THAT(*assign(key_of(all, "training.steps"), int64_t{1} << 62),
              HasSubstr("above the limit"));
  EXPECT_TRUE(assign(key_of(all, "training.local_batch_size"), int64_t{1} << 32));
  EXPECT_TRUE(assign(key_of(all, "parallelism.tensor_parallel_degree"), int64_t{1} << 32));
  EXPECT_FALSE(assign(key_of(all, "debug.seed"), int64_t{1} << 62));
}

TEST(Schema, WordsAreReadByTheTypeOfTheKey) {
  JobConfig config;
  const auto all = keys(config);
  const auto set = [&](const char* path, const char* word) {
    return assign_text(key_of(all, path), word);
  };
  EXPECT_FALSE(set("training.steps", "1_000"));
  EXPECT_EQ(config.training.steps, 1000);
  EXPECT_FALSE(set("optimizer.lr", "3e-4"));
  EXPECT_EQ(config.optimizer.lr, 3e-4);
  EXPECT_FALSE(set("optimizer.lr", "1"));
  EXPECT_EQ(config.optimizer.lr, 1.0);
  EXPECT_FALSE(set("model.converters", "a,b"));
  EXPECT_EQ(config.model.converters, (TextList{"a", "b"}));
  EXPECT_FALSE(set("model.converters", ""));
  EXPECT_TRUE(config.model.converters.empty());
  EXPECT_FALSE(set("debug.seed", "42"));
  EXPECT_EQ(config.debug.seed, 42);
  EXPECT_FALSE(set("debug.seed", "None"));
  EXPECT_EQ(config.debug.seed, std::nullopt);
  EXPECT_FALSE(
      set("parallelism.module_fqns_per_model_part", "tok_embeddings,layers.0;norm,output"));
  EXPECT_EQ(config.parallelism.module_fqns_per_model_part->at(1), (TextList{"norm", "output"}));
  EXPECT_TRUE(set("training.steps", "10x"));
  EXPECT_TRUE(set("training.steps", ""));
  EXPECT_TRUE(set("training.steps", "99999999999999999999"));
  EXPECT_TRUE(set("training.steps", "None"));
}

TEST(Value, RealsReadBackTheSame) {
  EXPECT_EQ(to_text(1.0), "1.0");
  EXPECT_EQ(to_text(8e-4), "0.0008");
  EXPECT_EQ(to_text(1e-8), "1e-08");
  EXPECT_EQ(to_text(TextList{"a\"b", "c"}), R"(["a\"b", "c"])");
}

}  // namespace
}  // namespace titan::config
