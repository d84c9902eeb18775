#include "models/registry.h"

#include <algorithm>

#include "base/error.h"
#include "base/numbers.h"
#include "base/text.h"
#include "models/hf_config.h"
#include "models/tables.h"

namespace titan::models {
namespace {

std::string hint(std::string_view word, const std::vector<std::string>& known) {
  const auto near = text::nearest(word, known);
  return near ? fmt::format("did you mean {}? known: {}", *near, text::join(known, ", "))
              : fmt::format("known: {}", text::join(known, ", "));
}

// TorchTitan names the kernel of attention in some flavors; all of these mean the document mask.
std::optional<std::string> without_kernel(const std::string& flavor) {
  for (const std::string_view suffix : {"_flex_attn", "_flex", "_varlen_attn", "_varlen"}) {
    if (flavor.ends_with(suffix)) return flavor.substr(0, flavor.size() - suffix.size());
  }
  return std::nullopt;
}

ModelArgs find_flavor(const config::Model& model) {
  const auto plain = without_kernel(model.flavor);
  std::vector<std::string> names;
  for (const auto& family : families()) {
    names.emplace_back(family.name);
    if (model.name != family.name) continue;
    std::vector<std::string> flavors;
    for (ModelArgs args : family.table()) {
      if (args.flavor == model.flavor) return args;
      if (args.flavor == plain) {
        args.flavor = model.flavor;
        args.block_causal = true;
        return args;
      }
      flavors.push_back(args.flavor);
    }
    throw Error("[model] {} has no flavor '{}' — {}", model.name, model.flavor,
                hint(model.flavor, flavors));
  }
  throw Error("[model] no model family '{}' — {}", model.name, hint(model.name, names));
}

void apply_overrides(const config::ModelArgsOverrides& o, ModelArgs& args) {
  const auto set = [](auto& target, const auto& value) {
    if (value) target = *value;
  };
  const bool width_changes = o.dim || o.n_heads;
  set(args.dim, o.dim);
  set(args.num_layers, o.n_layers);
  set(args.num_heads, o.n_heads);
  set(args.num_kv_heads, o.n_kv_heads);
  if (!o.n_kv_heads && o.n_heads) args.num_kv_heads = *o.n_heads;
  if (o.head_dim) {
    args.head_dim = *o.head_dim;
  } else if (width_changes && args.family != "qwen3") {
    args.head_dim = args.dim / args.num_heads;
  }
  if (o.hidden_dim) {
    args.hidden_dim = *o.hidden_dim;
  } else if (o.dim || o.ffn_dim_multiplier || o.multiple_of) {
    args.hidden_dim =
        llama_hidden_dim(args.dim, o.ffn_dim_multiplier.value_or(1), o.multiple_of.value_or(256));
  }
  set(args.vocab_size, o.vocab_size);
  set(args.norm_eps, o.norm_eps);
  set(args.rope_theta, o.rope_theta);
  set(args.qk_norm, o.qk_norm);
  set(args.tied, o.tied);
  if (o.attn_mask_type) args.block_causal = *o.attn_mask_type == "block_causal";
}

// The file says the family too: model.name and model.flavor are without effect then.
ModelArgs from_hf_config(const std::string& path) {
  ModelArgs args = read_hf_config(path);
  args.flavor = "of " + path;
  return args;
}

}  // namespace

std::vector<Family> families() {
  return {{"llama2", llama2_table}, {"llama3", llama3_table}, {"qwen3", qwen3_table}};
}

std::vector<std::string> problems(const ModelArgs& a) {
  std::vector<std::string> found;
  const auto positive = [&](const char* name, int64_t value) {
    if (value < 1) found.push_back(fmt::format("{} is {}, at least 1 is needed", name, value));
  };
  positive("dim", a.dim);
  positive("n_layers", a.num_layers);
  positive("n_heads", a.num_heads);
  positive("n_kv_heads", a.num_kv_heads);
  positive("head_dim", a.head_dim);
  positive("hidden_dim", a.hidden_dim);
  positive("vocab_size", a.vocab_size);
  if (!found.empty()) return found;
  if (a.num_heads % a.num_kv_heads != 0) {
    found.push_back(
        fmt::format("n_heads {} is not a multiple of n_kv_heads {}; the nearest n_heads: {}",
                    a.num_heads, a.num_kv_heads, nearest_multiples(a.num_heads, a.num_kv_heads)));
  }
  if (a.head_dim % 2 != 0) {
    found.push_back(fmt::format("head_dim {} is odd; rotary embedding needs pairs, use {}",
                                a.head_dim, nearest_multiples(a.head_dim, 2)));
  }
  if (a.family != "qwen3" && a.num_heads * a.head_dim != a.dim && a.dim % a.num_heads != 0) {
    found.push_back(fmt::format("dim {} is not a multiple of n_heads {}; the nearest dim: {}",
                                a.dim, a.num_heads, nearest_multiples(a.dim, a.num_heads)));
  }
  return found;
}

ModelArgs resolve(const config::Model& model, int64_t seq_len) {
  ModelArgs args =
      model.args.hf_config ? from_hf_config(*model.args.hf_config) : find_flavor(model);
  apply_overrides(model.args, args);
  args.max_seq_len = seq_len;
  const auto found = problems(args);
  if (!found.empty()) {
    throw Error("[model] the sizes of {} {} do not fit together: {} — see [model.args]", model.name,
                model.flavor, text::join(found, "; "));
  }
  return args;
}

}  // namespace titan::models
