// [model] and [model.args]: which network is trained, from which assets, with which sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/field.h"

namespace titan::config {

// [model.args] is titan's own: every key is optional and replaces that size of model.flavor.
struct ModelArgsOverrides {
  std::optional<int64_t> dim;
  std::optional<int64_t> n_layers;
  std::optional<int64_t> n_heads;
  std::optional<int64_t> n_kv_heads;
  std::optional<int64_t> head_dim;
  std::optional<int64_t> hidden_dim;
  std::optional<double> ffn_dim_multiplier;
  std::optional<int64_t> multiple_of;
  std::optional<int64_t> vocab_size;
  std::optional<double> norm_eps;
  std::optional<double> rope_theta;
  std::optional<bool> qk_norm;
  std::optional<bool> tied;
  std::optional<std::string> attn_mask_type;
  std::optional<std::string> hf_config;

  static constexpr void describe(auto&& field) {
    field("dim", &ModelArgsOverrides::dim, "width of the residual stream", at_least(1));
    field("n_layers", &ModelArgsOverrides::n_layers, "number of transformer blocks", at_least(1));
    field("n_heads", &ModelArgsOverrides::n_heads, "number of query heads", at_least(1));
    field("n_kv_heads", &ModelArgsOverrides::n_kv_heads,
          "number of key and value heads; must divide n_heads", at_least(1));
    field("head_dim", &ModelArgsOverrides::head_dim,
          "width of a head; absent: dim / n_heads, or the family's own", at_least(2));
    field("hidden_dim", &ModelArgsOverrides::hidden_dim, "width of the feed-forward part, exactly",
          at_least(1));
    field("ffn_dim_multiplier", &ModelArgsOverrides::ffn_dim_multiplier,
          "factor on the default feed-forward width", above(0));
    field("multiple_of", &ModelArgsOverrides::multiple_of,
          "the default feed-forward width is rounded up to a multiple of this", at_least(1));
    field("vocab_size", &ModelArgsOverrides::vocab_size,
          "rows of the embedding; must cover the ids of the tokenizer", at_least(1));
    field("norm_eps", &ModelArgsOverrides::norm_eps, "epsilon of RMSNorm", above(0));
    field("rope_theta", &ModelArgsOverrides::rope_theta, "base of the rotary frequencies",
          above(0));
    field("qk_norm", &ModelArgsOverrides::qk_norm,
          "RMSNorm over each head of queries and keys before the rotation");
    field("tied", &ModelArgsOverrides::tied,
          "the output projection shares the weight of the embedding");
    field("attn_mask_type", &ModelArgsOverrides::attn_mask_type,
          "causal: a token sees all earlier tokens of its sequence; block_causal: those of its own "
          "document; absent: the flavor's",
          one_of("causal|block_causal"));
    field("hf_config", &ModelArgsOverrides::hf_config,
          "config.json of a Hugging Face model, read for all sizes; the other keys override it");
  }
};
static_assert(complete<ModelArgsOverrides>(), "describe() of ModelArgsOverrides misses a member");

struct Model {
  std::string name = "llama3";
  std::string flavor = "debugmodel";
  std::string hf_assets_path = "./tests/assets/tokenizer";
  std::optional<std::string> tokenizer_path;
  std::vector<std::string> converters;
  bool print_after_conversion = false;
  ModelArgsOverrides args;

  static constexpr void describe(auto&& field) {
    field("name", &Model::name, "model family: llama2, llama3, qwen3");
    field("flavor", &Model::flavor, "row of the family's table of sizes, such as 8B");
    field("hf_assets_path", &Model::hf_assets_path,
          "folder of the tokenizer and, for import and export, of the Hugging Face weights");
    field("tokenizer_path", &Model::tokenizer_path, "older name of hf_assets_path");
    field("converters", &Model::converters,
          "changes to the model before training, such as quantize.linear.float8");
    field("print_after_conversion", &Model::print_after_conversion,
          "log the model after the converters");
    field("args", &Model::args, "sizes that replace those of the flavor");
  }
};
static_assert(complete<Model>(), "describe() of Model misses a member");

}  // namespace titan::config
