#include "models/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.h"
#include "models/hf.h"
#include "models/hf_config.h"
#include "models/model.h"
#include "models/tables.h"

namespace titan::models {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

config::Model model_of(const std::string& name, const std::string& flavor) {
  config::Model model;
  model.name = name;
  model.flavor = flavor;
  return model;
}

int64_t count(const config::Model& model) { return count_parameters(resolve(model, 128)).total; }

// Totals of the published models.
TEST(Tables, EveryFlavorHasItsNumberOfParameters) {
  const std::map<std::pair<std::string, std::string>, int64_t> totals = {
      {{"llama2", "7B"}, 6738415616},     {{"llama2", "13B"}, 13015864320},
      {{"llama2", "70B"}, 68976648192},   {{"llama3", "debugmodel"}, 6163712},
      {{"llama3", "8B"}, 8030261248},     {{"llama3", "70B"}, 70553706496},
      {{"llama3", "405B"}, 405853388800}, {{"llama3", "1B"}, 1235814400},
      {{"llama3", "3B"}, 3212749824},     {{"qwen3", "debugmodel"}, 31987968},
      {{"qwen3", "0.6B"}, 596049920},     {{"qwen3", "1.7B"}, 1720574976},
      {{"qwen3", "4B"}, 4022468096},      {{"qwen3", "8B"}, 8190735360},
      {{"qwen3", "14B"}, 14768307200},    {{"qwen3", "32B"}, 32762123264}};
  size_t flavors = 0;
  for (const auto& family : families()) {
    for (const auto& args : family.table()) {
      SCOPED_TRACE(args.family + " " + args.flavor);
      EXPECT_EQ(args.family, family.name);
      ASSERT_TRUE(totals.contains({args.family, args.flavor}));
      EXPECT_EQ(count_parameters(args).total, totals.at({args.family, args.flavor}));
      EXPECT_EQ(count_parameters(args).embedding, args.vocab_size * args.dim);
      EXPECT_THAT(problems(args), testing::IsEmpty());
      ++flavors;
    }
  }
  EXPECT_EQ(flavors, totals.size());
}

TEST(Tables, WidthsOfTheFeedForwardPartFollowTheRule) {
  EXPECT_EQ(llama_hidden_dim(256, 1, 256), 768);
  EXPECT_EQ(llama_hidden_dim(4096, 1.3, 1024), 14336);
  EXPECT_EQ(llama_hidden_dim(8192, 1.3, 4096), 28672);
  EXPECT_EQ(llama_hidden_dim(16384, 1.2, 4096), 53248);
  EXPECT_EQ(llama_hidden_dim(4096, 1, 256), 11008);
  EXPECT_EQ(llama_hidden_dim(5120, 1, 256), 13824);
  EXPECT_EQ(llama_hidden_dim(2048, 1.5, 256), 8192);
}

TEST(Resolve, KeysOfModelArgsReplaceSizes) {
  auto untied = model_of("llama3", "1B");
  untied.args.tied = false;
  EXPECT_EQ(count(untied), 1498482688);
  auto small = model_of("llama3", "debugmodel");
  small.args = {
      .dim = 128, .n_layers = 4, .n_heads = 4, .hidden_dim = 352, .vocab_size = 2048, .tied = true};
  const ModelArgs args = resolve(small, 77);
  EXPECT_EQ(args.head_dim, 32);
  EXPECT_EQ(args.num_kv_heads, 4);
  EXPECT_EQ(args.max_seq_len, 77);
  EXPECT_EQ(count(small), 2048 * 128 + 4 * (4 * 128 * 128 + 3 * 128 * 352 + 2 * 128) + 128);
  auto wide = model_of("llama3", "debugmodel");
  wide.args = {.dim = 512, .ffn_dim_multiplier = 1.5, .multiple_of = 64};
  EXPECT_EQ(resolve(wide, 8).hidden_dim, llama_hidden_dim(512, 1.5, 64));
  EXPECT_EQ(resolve(wide, 8).head_dim, 32);
  auto qwen = model_of("qwen3", "0.6B");
  qwen.args = {.n_heads = 8, .n_kv_heads = 4, .rope_theta = 5, .qk_norm = false};
  EXPECT_EQ(resolve(qwen, 8).head_dim, 128);
  EXPECT_EQ(resolve(qwen, 8).rope_theta, 5);
  EXPECT_FALSE(resolve(qwen, 8).qk_norm);
}

TEST(Resolve, FlavorsNamedByAKernelAreThePlainOnesWithDocumentMasks) {
  for (const char* flavor :
       {"debugmodel_flex_attn", "debugmodel_varlen_attn", "8B_flex", "8B_varlen"}) {
    auto model = model_of("llama3", flavor);
    EXPECT_TRUE(resolve(model, 8).block_causal) << flavor;
    EXPECT_EQ(resolve(model, 8).flavor, flavor);
    EXPECT_EQ(count(model), count(model_of("llama3", flavor[0] == '8' ? "8B" : "debugmodel")));
    model.args.attn_mask_type = "causal";
    EXPECT_FALSE(resolve(model, 8).block_causal) << flavor;
  }
  auto plain = model_of("qwen3", "0.6B");
  EXPECT_FALSE(resolve(plain, 8).block_causal);
  plain.args.attn_mask_type = "block_causal";
  EXPECT_TRUE(resolve(plain, 8).block_causal);
  EXPECT_TRUE(args_from_json(args_to_json(resolve(plain, 8)), "test").block_causal);
  EXPECT_THAT([] { resolve(model_of("llama3", "9B_flex"), 8); },
              ThrowsMessage<Error>(HasSubstr("no flavor '9B_flex'")));
}

TEST(Resolve, AHuggingFaceConfigIsASourceOfSizes) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("titan_registry_test_" + std::to_string(getpid()) + ".json");
  std::ofstream(path)
      << R"({"model_type": "qwen3", "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96, "vocab_size": 300, "rms_norm_eps": 1e-6,
    "rope_theta": 1000000, "tie_word_embeddings": true, "max_position_embeddings": 4096})";
  auto model = model_of("llama3", "debugmodel");
  model.args.hf_config = path.string();
  model.args.n_layers = 5;
  const ModelArgs args = resolve(model, 64);
  EXPECT_EQ(args.family, "qwen3");
  EXPECT_EQ(args.dim, 48);
  EXPECT_EQ(args.num_layers, 5);
  EXPECT_EQ(args.head_dim, 16);
  EXPECT_TRUE(args.qk_norm && args.tied);
  EXPECT_EQ(args.max_seq_len, 64);
  std::filesystem::remove(path);
  EXPECT_THAT([&] { resolve(model, 64); }, ThrowsMessage<Error>(HasSubstr(path.string())));
}

TEST(Resolve, ErrorsNameTheNearestLegalValues) {
  const auto expect = [](const config::ModelArgsOverrides& args,
                         const testing::Matcher<const std::string&>& words) {
    auto model = model_of("llama3", "debugmodel");
    model.args = args;
    EXPECT_THAT([&] { resolve(model, 8); }, ThrowsMessage<Error>(words));
  };
  expect({.dim = 100, .n_heads = 16},
         AllOf(HasSubstr("dim 100 is not a multiple of n_heads 16"), HasSubstr("96 or 112")));
  expect({.n_heads = 16, .n_kv_heads = 6},
         AllOf(HasSubstr("n_heads 16 is not a multiple of n_kv_heads 6"), HasSubstr("12 or 18")));
  expect({.n_kv_heads = 32},
         AllOf(HasSubstr("n_kv_heads 32"), HasSubstr("the nearest n_heads: 32")));
  expect({.head_dim = 7}, AllOf(HasSubstr("head_dim 7 is odd"), HasSubstr("6 or 8")));
  expect({.dim = 8, .n_heads = 16}, HasSubstr("head_dim is 0"));
  // All broken rules at once.
  expect({.n_heads = 16, .n_kv_heads = 6, .head_dim = 7},
         AllOf(HasSubstr("n_kv_heads 6"), HasSubstr("head_dim 7")));
}

TEST(Resolve, UnknownNamesGetTheNearestOne) {
  EXPECT_THAT([] { resolve(model_of("lama3", "8B"), 8); },
              ThrowsMessage<Error>(HasSubstr("did you mean llama3")));
  EXPECT_THAT([] { resolve(model_of("llama3", "8b"), 8); },
              ThrowsMessage<Error>(HasSubstr("did you mean 8B")));
  EXPECT_THAT([] { resolve(model_of("qwen3", "9000B"), 8); },
              ThrowsMessage<Error>(HasSubstr("14B")));
}

}  // namespace
}  // namespace titan::models
