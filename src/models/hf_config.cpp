#include "models/hf_config.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"

namespace titan::models {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr int64_t kLlama3Vocabulary = 128256;

// Features of a config.json that change the model and that the dense families lack.
void refuse_other_features(const Json& config, const std::string& what) {
  for (const char* key :
       {"attention_bias", "mlp_bias", "use_sliding_window", "attention_out_bias"}) {
    if (json::optional_bool(config, key, what).value_or(false)) {
      throw Error("{}: '{}' is true, which titan's dense models do not have", what, key);
    }
  }
  const auto activation = json::optional_string(config, "hidden_act", what).value_or("silu");
  if (activation != "silu")
    throw Error("{}: 'hidden_act' is \"{}\", only silu is built", what, activation);
  if (const double part = json::optional_number(config, "partial_rotary_factor", what).value_or(1);
      part != 1) {
    throw Error("{}: 'partial_rotary_factor' is {}, only 1 is built", what, part);
  }
  if (config.contains("quantization_config") && !config["quantization_config"].is_null()) {
    throw Error(
        "{}: quantised weights (quantization_config) are not read — use the unquantised model",
        what);
  }
}

// rope_scaling of older files, rope_parameters of newer ones (which hold rope_theta too).
void read_rope(const Json& config, const std::string& what, ModelArgs& args) {
  args.rope_theta = json::optional_number(config, "rope_theta", what).value_or(10000);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) continue;
    const std::string where = fmt::format("{}: {}", what, key);
    args.rope_theta = json::optional_number(*found, "rope_theta", where).value_or(args.rope_theta);
    auto type = json::optional_string(*found, "rope_type", where);
    if (!type) type = json::optional_string(*found, "type", where);
    if (!type || *type == "default") continue;
    if (*type != "llama3")
      throw Error("{} has the type \"{}\", only llama3 and default are built", where, *type);
    args.rope_scaling =
        RopeScaling{.factor = json::number_member(*found, "factor", where),
                    .low_freq_factor = json::number_member(*found, "low_freq_factor", where),
                    .high_freq_factor = json::number_member(*found, "high_freq_factor", where),
                    .original_max_positions =
                        json::size_member(*found, "original_max_position_embeddings", where)};
  }
}

void check_sizes(const ModelArgs& args, const std::string& what) {
  const std::array<std::pair<const char*, int64_t>, 7> sizes{
      {{"hidden_size", args.dim},
       {"num_hidden_layers", args.num_layers},
       {"num_attention_heads", args.num_heads},
       {"num_key_value_heads", args.num_kv_heads},
       {"head_dim", args.head_dim},
       {"intermediate_size", args.hidden_dim},
       {"vocab_size", args.vocab_size}}};
  for (const auto& [key, size] : sizes) {
    // An upper bound keeps products of two sizes inside int64.
    if (size < 1 || size > (int64_t{1} << 30))
      throw Error("{}: '{}' is {}, which is no size", what, key, size);
  }
  if (args.num_heads % args.num_kv_heads != 0) {
    throw Error("{}: num_attention_heads {} is no multiple of num_key_value_heads {}", what,
                args.num_heads, args.num_kv_heads);
  }
  if (args.head_dim % 2 != 0)
    throw Error("{}: head_dim {} is odd, the rotation needs pairs", what, args.head_dim);
}

}  // namespace

ModelArgs args_from_hf_config(const Json& config, const std::string& what) {
  const std::string type = json::string_member(config, "model_type", what);
  if (type != "llama" && type != "qwen3") {
    throw Error("{}: model_type is \"{}\", llama and qwen3 are built", what, type);
  }
  refuse_other_features(config, what);
  ModelArgs args;
  args.dim = json::size_member(config, "hidden_size", what);
  args.num_layers = json::size_member(config, "num_hidden_layers", what);
  args.num_heads = json::size_member(config, "num_attention_heads", what);
  args.num_kv_heads =
      json::optional_size(config, "num_key_value_heads", what).value_or(args.num_heads);
  const int64_t default_head_dim =
      type == "qwen3" ? 128 : args.dim / std::max<int64_t>(args.num_heads, 1);
  args.head_dim = json::optional_size(config, "head_dim", what).value_or(default_head_dim);
  args.hidden_dim = json::size_member(config, "intermediate_size", what);
  args.vocab_size = json::size_member(config, "vocab_size", what);
  args.max_seq_len = json::optional_size(config, "max_position_embeddings", what).value_or(2048);
  args.norm_eps = json::optional_number(config, "rms_norm_eps", what).value_or(1e-6);
  args.tied = json::optional_bool(config, "tie_word_embeddings", what).value_or(false);
  read_rope(config, what, args);
  check_sizes(args, what);
  if (type == "qwen3") {
    args.family = "qwen3";
    args.qk_norm = true;
    args.rope_style = RopeStyle::kHalves;
  } else {
    args.family = args.rope_scaling || args.vocab_size == kLlama3Vocabulary ? "llama3" : "llama2";
  }
  return args;
}

ModelArgs read_hf_config(const fs::path& path) {
  const fs::path file = fs::is_directory(path) ? path / "config.json" : path;
  const std::string what = fmt::format("[models] {}", file.string());
  return args_from_hf_config(json::parse_strict(files::read(file), what), what);
}

Json hf_config_of(const ModelArgs& args, const std::string& dtype) {
  const bool qwen3 = args.qk_norm;
  Json config = {{"architectures", {qwen3 ? "Qwen3ForCausalLM" : "LlamaForCausalLM"}},
                 {"model_type", qwen3 ? "qwen3" : "llama"},
                 {"hidden_size", args.dim},
                 {"num_hidden_layers", args.num_layers},
                 {"num_attention_heads", args.num_heads},
                 {"num_key_value_heads", args.num_kv_heads},
                 {"head_dim", args.head_dim},
                 {"intermediate_size", args.hidden_dim},
                 {"vocab_size", args.vocab_size},
                 {"max_position_embeddings", args.max_seq_len},
                 {"rms_norm_eps", args.norm_eps},
                 {"rope_theta", args.rope_theta},
                 {"rope_scaling", nullptr},
                 {"tie_word_embeddings", args.tied},
                 {"hidden_act", "silu"},
                 {"attention_bias", false},
                 {"attention_dropout", 0.0},
                 {"initializer_range", 0.02},
                 {"use_cache", true},
                 {"bos_token_id", nullptr},
                 {"eos_token_id", nullptr},
                 {"pad_token_id", nullptr},
                 {"torch_dtype", dtype}};
  if (!qwen3) {
    config["mlp_bias"] = false;
    config["pretraining_tp"] = 1;
  }
  if (args.rope_scaling) {
    config["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", args.rope_scaling->factor},
        {"low_freq_factor", args.rope_scaling->low_freq_factor},
        {"high_freq_factor", args.rope_scaling->high_freq_factor},
        {"original_max_position_embeddings", args.rope_scaling->original_max_positions}};
  }
  return config;
}

Json args_to_json(const ModelArgs& args) {
  Json scaling = nullptr;
  if (args.rope_scaling) {
    scaling = {{"factor", args.rope_scaling->factor},
               {"low_freq_factor", args.rope_scaling->low_freq_factor},
               {"high_freq_factor", args.rope_scaling->high_freq_factor},
               {"original_max_positions", args.rope_scaling->original_max_positions}};
  }
  return {{"family", args.family},
          {"flavor", args.flavor},
          {"dim", args.dim},
          {"num_layers", args.num_layers},
          {"num_heads", args.num_heads},
          {"num_kv_heads", args.num_kv_heads},
          {"head_dim", args.head_dim},
          {"hidden_dim", args.hidden_dim},
          {"vocab_size", args.vocab_size},
          {"max_seq_len", args.max_seq_len},
          {"norm_eps", args.norm_eps},
          {"rope_theta", args.rope_theta},
          {"rope_scaling", std::move(scaling)},
          {"rope_style", args.rope_style == RopeStyle::kInterleaved ? "interleaved" : "halves"},
          {"qk_norm", args.qk_norm},
          {"tied", args.tied},
          {"block_causal", args.block_causal}};
}

ModelArgs args_from_json(const Json& root, const std::string& what) {
  ModelArgs args;
  args.family = json::string_member(root, "family", what);
  args.flavor = json::string_member(root, "flavor", what);
  args.dim = json::size_member(root, "dim", what);
  args.num_layers = json::size_member(root, "num_layers", what);
  args.num_heads = json::size_member(root, "num_heads", what);
  args.num_kv_heads = json::size_member(root, "num_kv_heads", what);
  args.head_dim = json::size_member(root, "head_dim", what);
  args.hidden_dim = json::size_member(root, "hidden_dim", what);
  args.vocab_size = json::size_member(root, "vocab_size", what);
  args.max_seq_len = json::size_member(root, "max_seq_len", what);
  args.norm_eps = json::number_member(root, "norm_eps", what);
  args.rope_theta = json::number_member(root, "rope_theta", what);
  if (const Json& scaling = json::member(root, "rope_scaling", what); !scaling.is_null()) {
    args.rope_scaling = RopeScaling{
        .factor = json::number_member(scaling, "factor", what),
        .low_freq_factor = json::number_member(scaling, "low_freq_factor", what),
        .high_freq_factor = json::number_member(scaling, "high_freq_factor", what),
        .original_max_positions = json::size_member(scaling, "original_max_positions", what)};
  }
  const std::string style = json::string_member(root, "rope_style", what);
  if (style != "interleaved" && style != "halves")
    throw Error("{}: 'rope_style' is \"{}\"", what, style);
  args.rope_style = style == "halves" ? RopeStyle::kHalves : RopeStyle::kInterleaved;
  args.qk_norm = json::optional_bool(root, "qk_norm", what).value_or(false);
  args.tied = json::optional_bool(root, "tied", what).value_or(false);
  args.block_causal = json::optional_bool(root, "block_causal", what).value_or(false);
  check_sizes(args, what);
  return args;
}

}  // namespace titan::models
