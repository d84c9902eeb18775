#include "data/tokenizer/hf_tokenizer.h"

#include <simdjson.h>

#include <array>

#include "base/error.h"
#include "base/text.h"
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/hf_model.h"
#include "data/tokenizer/json.h"
#include "data/tokenizer/scanner.h"

namespace titan::data {
namespace fs = std::filesystem;
namespace {

class HfTokenizer : public Tokenizer {
 public:
  HfTokenizer(const fs::path& file, const fs::path& folder) : file_(file.string()) {
    const JsonFile json(file);
    const Json root = json.root();
    scanner_ = read_scanner(root);
    model_ = read_hf_model(root.at("model"), Bpe::Alphabet::kBytes);
    read_added_tokens(root);
    if (!folder.empty()) read_bos_eos(folder);
  }

  void encode(std::string_view text, std::vector<int32_t>& out) const override {
    std::string repaired;
    if (!simdjson::validate_utf8(text.data(), text.size())) {
      repaired = text::to_valid_utf8(text);
      text = repaired;
    }
    CachePool::Lease lease(caches_);
    std::vector<Segment> segments;
    added_.split(text, segments);
    std::array<std::string_view, 256> pieces;
    for (const Segment& segment : segments) {
      if (segment.id >= 0) {
        out.push_back(segment.id);
        continue;
      }
      for (size_t position = 0; const size_t n = scanner_->scan(segment.text, position, pieces);) {
        for (size_t i = 0; i < n; ++i) model_->bpe->encode(pieces[i], out, lease.cache());
      }
    }
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string bytes;
    for (const int32_t id : ids) bytes += token_bytes(id);
    return text::to_valid_utf8(bytes);
  }

  std::string token_bytes(int32_t id) const override {
    if (id >= 0 && id < static_cast<int32_t>(added_names_.size()) && !added_names_[id].empty()) return added_names_[id];
    if (!model_->tokens.contains(id)) throw Error("[tokenizer] {}: no token has the id {}", file_, id);
    const std::string_view token = model_->tokens.token(id);
    return byte_level::to_bytes(token).value_or(std::string(token));
  }

  int64_t vocab_size() const override {
    return std::max<int64_t>(model_->tokens.size(), static_cast<int64_t>(added_names_.size()));
  }
  std::optional<int32_t> bos_id() const override { return bos_; }
  std::optional<int32_t> eos_id() const override { return eos_; }
  std::vector<std::string> description() const override { return {"Hugging Face tokenizer.json, byte-level BPE"}; }

 private:
  static std::unique_ptr<Scanner> read_scanner(const Json& root) {
    const Json pre = root.at("pre_tokenizer");
    std::string_view regex = kGpt2Pattern;
    if (pre.at("type").string() == "Sequence") {
      const auto stages = pre.at("pretokenizers").items();
      if (stages.size() != 2) pre.fail("this sequence is not supported yet");
      regex = stages[0].at("pattern").at("Regex").string();
    }
    auto scanner = known_scanner(regex);
    if (!scanner) pre.fail(fmt::format("the regex {} is not supported yet", regex));
    return scanner;
  }

  void read_added_tokens(const Json& root) {
    const auto list = root.find("added_tokens");
    if (!list) return;
    for (const Json& item : list->items()) {
      AddedToken token;
      token.content = item.at("content").string();
      token.id = static_cast<int32_t>(item.at("id").integer());
      token.special = item.boolean_or("special", false);
      token.single_word = item.boolean_or("single_word", false);
      token.lstrip = item.boolean_or("lstrip", false);
      token.rstrip = item.boolean_or("rstrip", false);
      token.normalized = item.boolean_or("normalized", !token.special);
      if (token.id >= static_cast<int32_t>(added_names_.size())) added_names_.resize(token.id + 1);
      added_names_[token.id] = token.content;
      added_.add(std::move(token));
    }
  }

  std::optional<int32_t> id_of(std::string_view name) const {
    for (size_t id = 0; id < added_names_.size(); ++id) {
      if (added_names_[id] == name) return static_cast<int32_t>(id);
    }
    return model_->tokens.find(name);
  }

  void read_bos_eos(const fs::path& folder) {
    const fs::path config = folder / "tokenizer_config.json";
    if (!fs::exists(config)) return;
    const JsonFile json(config);
    const auto read = [&](const char* key) -> std::optional<int32_t> {
      const auto value = json.root().find(key);
      if (!value) return std::nullopt;
      return id_of(value->is_object() ? value->at("content").string() : value->string());
    };
    bos_ = read("bos_token");
    eos_ = read("eos_token");
  }

  std::string file_;
  std::unique_ptr<HfModel> model_;
  std::unique_ptr<Scanner> scanner_;
  TokenMatcher added_;
  std::vector<std::string> added_names_;  // by id; empty: no added token
  std::optional<int32_t> bos_, eos_;
  CachePool caches_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_hf_tokenizer(const fs::path& file, const fs::path& folder) {
  return std::make_unique<HfTokenizer>(file, folder);
}

}  // namespace titan::data
