#include "data/tokenizer/known_ranks.h"

#include <vector>

#include "base/error.h"
#include "data/tokenizer/scanner.h"

namespace titan::data {
namespace {

constexpr const char* kGptEnd = "<|endoftext|>";

using Names = std::vector<std::string>;

void add_reserved(Names& names, const std::string& stem, int first, int count) {
  for (int i = 0; i < count; ++i) names.push_back(fmt::format("<|{}_{}|>", stem, first + i));
}

Names llama3_specials() {
  Names names = {"<|begin_of_text|>",
                 "<|end_of_text|>",
                 "<|reserved_special_token_0|>",
                 "<|reserved_special_token_1|>",
                 "<|finetune_right_pad_id|>",
                 "<|step_id|>",
                 "<|start_header_id|>",
                 "<|end_header_id|>",
                 "<|eom_id|>",
                 "<|eot_id|>",
                 "<|python_tag|>",
                 "<|image|>"};
  add_reserved(names, "reserved_special_token", 2, 256 - static_cast<int>(names.size()));
  return names;
}

Names llama4_specials() {
  Names names = {"<|begin_of_text|>", "<|end_of_text|>",  "<|fim_prefix|>", "<|fim_middle|>",
                 "<|fim_suffix|>",    "<|header_start|>", "<|header_end|>", "<|eom|>",
                 "<|eot|>",           "<|step|>"};
  const std::string text = "text_post_train_reserved_special_token";
  add_reserved(names, text, 0, 6);
  for (const char* name : {"<|python_start|>", "<|python_end|>", "<|finetune_right_pad|>"})
    names.emplace_back(name);
  add_reserved(names, text, 8, 61);
  const std::string vision = "vision_reserved_special_token";
  for (const char* name : {"<|image_start|>", "<|image_end|>"}) names.emplace_back(name);
  add_reserved(names, vision, 0, 2);
  for (const char* name : {"<|tile_x_separator|>", "<|tile_y_separator|>"})
    names.emplace_back(name);
  add_reserved(names, vision, 2, 4);
  names.emplace_back("<|image|>");
  add_reserved(names, vision, 6, 1);
  names.emplace_back("<|patch|>");
  add_reserved(names, vision, 7, 1041);
  add_reserved(names, "reasoning_reserved_special_token", 0, 8);
  for (const char* name : {"<|reasoning_thinking_start|>", "<|reasoning_thinking_end|>"})
    names.emplace_back(name);
  add_reserved(names, "reserved_special_token", 0, 2048 - static_cast<int>(names.size()));
  return names;
}

Names qwen_specials() {
  Names names = {kGptEnd, "<|im_start|>", "<|im_end|>"};
  add_reserved(names, "extra", 0, 205);
  return names;
}

// Numbers the names from `first` on and looks up BOS and EOS by name.
KnownRanks numbered(std::string name, const char* pattern, const Names& names, int32_t first,
                    const char* bos, const char* eos) {
  KnownRanks known{std::move(name), pattern, {}, std::nullopt, std::nullopt};
  for (size_t i = 0; i < names.size(); ++i) {
    const auto id = first + static_cast<int32_t>(i);
    known.specials[id] = names[i];
    if (bos && names[i] == bos) known.bos = id;
    if (eos && names[i] == eos) known.eos = id;
  }
  return known;
}

}  // namespace

KnownRanks known_ranks(int64_t num_ranks, const std::string& file) {
  switch (num_ranks) {
    case 128000:
      return numbered("Llama 3", kLlama3Pattern, llama3_specials(), 128000, "<|begin_of_text|>",
                      "<|end_of_text|>");
    case 200000:
      return numbered("Llama 4", kO200kPattern, llama4_specials(), 200000, "<|begin_of_text|>",
                      "<|end_of_text|>");
    case 151643:
      return numbered("Qwen", kQwen2Pattern, qwen_specials(), 151643, nullptr, kGptEnd);
    case 50256:
      return numbered("GPT-2", kGpt2Pattern, {kGptEnd}, 50256, nullptr, kGptEnd);
    case 199998: {
      auto known = numbered("o200k_base", kO200kPattern, {kGptEnd}, 199999, nullptr, kGptEnd);
      known.specials[200018] = "<|endofprompt|>";
      return known;
    }
    default:
      break;
  }
  throw Error(
      "[tokenizer] {}: a rank file of {} tokens is of no known vocabulary — Llama 3 has 128000, "
      "Llama 4 200000, "
      "Qwen 151643, GPT-2 50256, o200k_base 199998; give a tokenizer.json instead",
      file, num_ranks);
}

std::map<int32_t, std::string> tekken_specials(const std::optional<Json>& json, int64_t count) {
  std::map<int32_t, std::string> specials;
  if (json) {
    for (const Json& item : json->items()) {
      const int64_t id = item.at("rank").integer();
      if (id < 0 || id >= count)
        item.fail(fmt::format("rank {} is not below the {} special tokens", id, count));
      if (!specials.emplace(static_cast<int32_t>(id), item.at("token_str").string()).second) {
        item.fail(fmt::format("rank {} occurs twice", id));
      }
    }
  } else {
    const char* const old[] = {"<unk>",
                               "<s>",
                               "</s>",
                               "[INST]",
                               "[/INST]",
                               "[AVAILABLE_TOOLS]",
                               "[/AVAILABLE_TOOLS]",
                               "[TOOL_RESULTS]",
                               "[/TOOL_RESULTS]",
                               "[TOOL_CALLS]",
                               "[IMG]",
                               "<pad>",
                               "[IMG_BREAK]",
                               "[IMG_END]",
                               "[PREFIX]",
                               "[MIDDLE]",
                               "[SUFFIX]",
                               "[SYSTEM_PROMPT]",
                               "[/SYSTEM_PROMPT]",
                               "[TOOL_CONTENT]"};
    for (const char* name : old) {
      if (static_cast<int64_t>(specials.size()) < count)
        specials.emplace(static_cast<int32_t>(specials.size()), name);
    }
  }
  for (int32_t id = 0; id < count; ++id) specials.emplace(id, fmt::format("<SPECIAL_{}>", id));
  return specials;
}

}  // namespace titan::data
