#include "models/hf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "models/hf_config.h"
#include "models/model.h"
#include "support/tiny_args.h"

namespace titan::models {
namespace {
using testing::HasSubstr;
using testing::ThrowsMessage;

ModelArgs sized(ModelArgs args) {
  args.dim = 24;
  args.num_heads = 3;
  args.num_kv_heads = 1;
  args.head_dim = 8;
  args.rope_theta = 500000;
  return args;
}

ModelArgs llama() {
  ModelArgs args = sized(tiny_llama3());
  args.rope_scaling = RopeScaling{};
  return args;
}

ModelArgs qwen3() {
  ModelArgs args = sized(tiny_qwen3());
  args.norm_eps = 1e-6;
  return args;
}

TEST(HfNames, EveryDenseParameterHasItsName) {
  EXPECT_EQ(hf_name("tok_embeddings.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(hf_name("layers.12.attention.wq.weight"), "model.layers.12.self_attn.q_proj.weight");
  EXPECT_EQ(hf_name("layers.0.feed_forward.w2.weight"), "model.layers.0.mlp.down_proj.weight");
  EXPECT_EQ(hf_name("layers.0.ffn_norm.weight"), "model.layers.0.post_attention_layernorm.weight");
  EXPECT_EQ(hf_name("output.weight"), "lm_head.weight");
  for (const auto& args : {llama(), qwen3()}) {
    for (const auto& [name, shape] : parameter_shapes(args)) {
      EXPECT_THAT(hf_name(name), HasSubstr(".weight"));
    }
  }
  for (const char* name : {"layers.x.attention.wq.weight", "layers.1", "layers..ffn_norm.weight",
                           "freqs", "optimizer.x"}) {
    EXPECT_THAT([&] { hf_name(name); }, ThrowsMessage<Error>(HasSubstr(name)));
  }
}

TEST(HfNames, TiedModelsHaveNoOutput) {
  EXPECT_EQ(parameter_shapes(llama()).back().first, "output.weight");
  EXPECT_EQ(parameter_shapes(qwen3()).back().first, "norm.weight");
  EXPECT_TRUE(HfNames{qwen3()}.ignored("lm_head.weight"));
  EXPECT_FALSE(HfNames{llama()}.ignored("lm_head.weight"));
  EXPECT_TRUE(HfNames{llama()}.ignored("model.layers.0.self_attn.rotary_emb.inv_freq"));
}

TEST(HfRows, PairsOfAHeadBecomeHalves) {
  const HfNames names{llama()};
  const at::Tensor wk = at::arange(8, at::kFloat).view({8, 1}).expand({8, 24}).contiguous();
  const at::Tensor theirs = names.to_foreign("layers.0.attention.wk.weight", wk);
  const float expected[] = {0, 2, 4, 6, 1, 3, 5, 7};
  for (int64_t row = 0; row < 8; ++row) EXPECT_EQ(theirs[row][3].item<float>(), expected[row]);
  const at::Tensor wq = at::randn({24, 24});
  const std::string name = "layers.1.attention.wq.weight";
  EXPECT_TRUE(at::equal(names.from_foreign(name, names.to_foreign(name, wq)), wq));
  EXPECT_TRUE(at::equal(names.to_foreign(name, wq).narrow(0, 0, 8),
                        names.to_foreign("layers.1.attention.wk.weight", wq.narrow(0, 0, 8))));
  EXPECT_FALSE(at::equal(names.to_foreign(name, wq), wq));
  EXPECT_TRUE(names.to_foreign("layers.1.attention.wv.weight", wq).is_same(wq));
  EXPECT_TRUE(HfNames{qwen3()}.to_foreign(name, wq).is_same(wq));
}

TEST(HfConfig, SizesSurviveBothForms) {
  for (ModelArgs args : {llama(), qwen3()}) {
    args.flavor = "";
    const auto through = args_from_hf_config(hf_config_of(args, "float32"), "config.json");
    EXPECT_EQ(args_to_json(through), args_to_json(args));
    EXPECT_EQ(args_to_json(args_from_json(args_to_json(args), "state")), args_to_json(args));
  }
}

TEST(HfConfig, NewerFilesKeepTheRotationInOneObject) {
  auto config = hf_config_of(llama(), "float32");
  config["rope_parameters"] = config["rope_scaling"];
  config["rope_parameters"]["rope_theta"] = 7;
  config.erase("rope_scaling");
  config.erase("rope_theta");
  const auto args = args_from_hf_config(config, "config.json");
  EXPECT_EQ(args.rope_theta, 7);
  EXPECT_EQ(args.rope_scaling->factor, 8);
}

TEST(HfConfig, WhatTheFamiliesLackIsRefusedByKey) {
  const auto expect_refused = [](const char* key, const nlohmann::json& value, const char* words) {
    auto config = hf_config_of(llama(), "float32");
    config[key] = value;
    EXPECT_THAT([&] { args_from_hf_config(config, "f/config.json"); },
                ThrowsMessage<Error>(testing::AllOf(HasSubstr("f/config.json"), HasSubstr(words))))
        << key;
  };
  expect_refused("model_type", "mixtral", "model_type is \"mixtral\"");
  expect_refused("attention_bias", true, "'attention_bias' is true");
  expect_refused("hidden_act", "gelu", "'hidden_act' is \"gelu\"");
  expect_refused("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}, "type \"yarn\"");
  expect_refused("rope_scaling", {{"rope_type", "llama3"}}, "has no 'factor'");
  expect_refused("quantization_config", {{"bits", 4}}, "quantised");
  expect_refused("hidden_size", "24", "'hidden_size' is \"24\"");
  expect_refused("hidden_size", 0, "'hidden_size' is 0");
  expect_refused("num_key_value_heads", 2, "no multiple of num_key_value_heads 2");
  expect_refused("head_dim", 7, "head_dim 7 is odd");
}

}  // namespace
}  // namespace titan::models
