#include "data/tokenizer/hf_config.h"

#include "base/error.h"

namespace titan::data {
namespace fs = std::filesystem;
namespace {

// "bos_token": "<s>" or {"content": "<s>", …}.
std::optional<int32_t> named_token(const Json& root, const std::string& key,
                                   const TokenFinder& id_of) {
  const auto value = root.find(key);
  if (!value) return std::nullopt;
  const std::string_view name =
      value->is_object() ? value->at("content").string() : value->string();
  if (const auto id = id_of(name)) return id;
  // The file may also list tokens that tokenizer.json leaves out.
  if (const auto added = root.find("added_tokens_decoder")) {
    for (const auto& [id, token] : added->members()) {
      if (token.string_or("content", "") == name)
        return static_cast<int32_t>(std::stol(std::string(id)));
    }
  }
  value->fail(fmt::format("the token \"{}\" is not in tokenizer.json", name));
}

// "bos_token_id": 1 or [1, 2].
std::optional<int32_t> numbered_token(const Json& root, const std::string& key) {
  const auto value = root.find(key);
  if (!value) return std::nullopt;
  if (!value->is_array()) return static_cast<int32_t>(value->integer());
  const auto ids = value->items();
  return ids.empty() ? std::nullopt : std::optional(static_cast<int32_t>(ids[0].integer()));
}

void find_token(const fs::path& folder, const std::string& key, const TokenFinder& id_of,
                std::optional<int32_t>& id, std::string& source) {
  source = "no file beside tokenizer.json names one";
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json",
                           "generation_config.json", "config.json"}) {
    const fs::path file = folder / name;
    if (!fs::exists(file)) continue;
    const JsonFile json(file);
    const bool by_name =
        std::string_view(name).find("token") == 0 || std::string_view(name).find("special") == 0;
    id = by_name ? named_token(json.root(), key, id_of) : numbered_token(json.root(), key + "_id");
    if (!id) continue;
    source = fmt::format("{}: {}", name, by_name ? key : key + "_id");
    return;
  }
}

class PostProcessorReader {
 public:
  void read(const Json& json) {
    const std::string_view type = json.at("type").string();
    if (type == "ByteLevel") return;  // only moves offsets
    if (type == "Sequence") {
      for (const Json& stage : json.at("processors").items()) read(stage);
    } else if (type == "TemplateProcessing") {
      read_template(json);
    } else if (type == "RobertaProcessing" || type == "BertProcessing") {
      result.before.insert(result.before.begin(), pair_id(json.at("cls")));
      result.after.push_back(pair_id(json.at("sep")));
    } else {
      json.fail(fmt::format("the post-processor {} is not supported", type));
    }
  }

  Surrounding result;

 private:
  void read_template(const Json& json) {
    Surrounding added;
    bool text_seen = false;
    for (const Json& item : json.at("single").items()) {
      if (item.find("Sequence")) {
        if (text_seen) item.fail("a template that repeats the text is not supported");
        text_seen = true;
        continue;
      }
      const std::string_view name = item.at("SpecialToken").at("id").string();
      const Json token = json.at("special_tokens").at(name);
      for (const Json& id : token.at("ids").items()) {
        (text_seen ? added.after : added.before).push_back(static_cast<int32_t>(id.integer()));
      }
    }
    if (!text_seen) json.fail("a template without the text is not supported");
    result.before.insert(result.before.begin(), added.before.begin(), added.before.end());
    result.after.insert(result.after.end(), added.after.begin(), added.after.end());
  }

  // ["</s>", 2]
  static int32_t pair_id(const Json& json) {
    const auto parts = json.items();
    if (parts.size() != 2) json.fail("a token and its id are needed");
    return static_cast<int32_t>(parts[1].integer());
  }
};

}  // namespace

BosEos find_bos_eos(const fs::path& folder, const TokenFinder& id_of) {
  BosEos result;
  find_token(folder, "bos_token", id_of, result.bos, result.bos_source);
  find_token(folder, "eos_token", id_of, result.eos, result.eos_source);
  return result;
}

Surrounding read_post_processor(const Json& json) {
  PostProcessorReader reader;
  reader.read(json);
  return std::move(reader.result);
}

}  // namespace titan::data
