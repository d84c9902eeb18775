#include "models/hf.h"

#include <utility>

#include "base/error.h"

namespace titan::models {
namespace {

constexpr std::pair<std::string_view, std::string_view> kTopNames[] = {
    {"tok_embeddings.weight", "model.embed_tokens.weight"},
    {"norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};
constexpr std::pair<std::string_view, std::string_view> kLayerNames[] = {
    {"attention_norm.weight", "input_layernorm.weight"},
    {"attention.wq.weight", "self_attn.q_proj.weight"},
    {"attention.wk.weight", "self_attn.k_proj.weight"},
    {"attention.wv.weight", "self_attn.v_proj.weight"},
    {"attention.wo.weight", "self_attn.o_proj.weight"},
    {"attention.q_norm.weight", "self_attn.q_norm.weight"},
    {"attention.k_norm.weight", "self_attn.k_norm.weight"},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"feed_forward.w1.weight", "mlp.gate_proj.weight"},
    {"feed_forward.w2.weight", "mlp.down_proj.weight"},
    {"feed_forward.w3.weight", "mlp.up_proj.weight"},
};
constexpr std::string_view kLayers = "layers.";

// Splits "layers.12.attention.wq.weight" into "12" and "attention.wq.weight"; two empty parts for
// other names.
std::pair<std::string_view, std::string_view> split_layer(std::string_view name) {
  if (!name.starts_with(kLayers)) return {};
  name.remove_prefix(kLayers.size());
  const size_t digits = name.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos || name[digits] != '.') return {};
  return {name.substr(0, digits), name.substr(digits + 1)};
}

// Heads whose rows are paired, when `name` is reordered; 0 when it is not.
int64_t reordered_heads(const ModelArgs& args, std::string_view name) {
  if (args.rope_style != RopeStyle::kInterleaved) return 0;
  const std::string_view part = split_layer(name).second;
  if (part == "attention.wq.weight") return args.num_heads;
  if (part == "attention.wk.weight") return args.num_kv_heads;
  return part == "attention.q_norm.weight" || part == "attention.k_norm.weight" ? 1 : 0;
}

// Rows of each head, seen as [rows, columns], are transposed.
at::Tensor transpose_rows(const at::Tensor& tensor, int64_t heads, int64_t rows, int64_t columns) {
  TITAN_CHECK(tensor.size(0) == heads * rows * columns, "{} rows of {} heads of {}", tensor.size(0),
              heads, rows * columns);
  return tensor.reshape({heads, rows, columns, -1}).transpose(1, 2).reshape(tensor.sizes());
}

}  // namespace

std::string hf_name(std::string_view name) {
  for (const auto& [ours, theirs] : kTopNames) {
    if (name == ours) return std::string(theirs);
  }
  const auto [layer, part] = split_layer(name);
  for (const auto& [ours, theirs] : kLayerNames) {
    if (part == ours) return fmt::format("model.layers.{}.{}", layer, theirs);
  }
  throw Error("[models] parameter '{}' has no Hugging Face name in the dense families", name);
}

bool hf_ignored(const ModelArgs& args, std::string_view hf_name) {
  return hf_name.ends_with("rotary_emb.inv_freq") || (args.tied && hf_name == "lm_head.weight");
}

at::Tensor to_hf(const ModelArgs& args, std::string_view name, const at::Tensor& tensor) {
  const int64_t heads = reordered_heads(args, name);
  return heads == 0 ? tensor : transpose_rows(tensor, heads, args.head_dim / 2, 2);
}

at::Tensor from_hf(const ModelArgs& args, std::string_view name, const at::Tensor& tensor) {
  const int64_t heads = reordered_heads(args, name);
  return heads == 0 ? tensor : transpose_rows(tensor, heads, 2, args.head_dim / 2);
}

}  // namespace titan::models
