#include "data/tokenizer/hf_tokenizer.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/decoder.h"
#include "data/tokenizer/hf_config.h"
#include "data/tokenizer/hf_model.h"
#include "data/tokenizer/json.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/pre_tokenizer.h"

namespace titan::data {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kWordMark =
    "\u2581";  // ▁, the blank of SentencePiece-style vocabularies

std::string text_part_before_marks(std::string_view token) {
  const size_t first_other = [&] {
    size_t at = 0;
    while (token.substr(at).starts_with(kWordMark)) at += kWordMark.size();
    return at;
  }();
  return std::string(token.substr(first_other));
}

class HfTokenizer : public Tokenizer {
 public:
  HfTokenizer(const JsonFile& file, const fs::path& folder) : file_(file.name()) {
    const Json root = file.root();
    if (const auto pre = root.find("pre_tokenizer")) pre_ = read_pre_tokenizer(*pre);
    if (works_on_characters(root.at("model"))) spell_bytes(pre_);
    model_ = read_hf_model(root.at("model"),
                           pre_.to_bytes ? Bpe::Alphabet::kBytes : Bpe::Alphabet::kCharacters);
    if (const auto normalizer = root.find("normalizer")) normalizer_ = read_normalizer(*normalizer);
    if (const auto decoder = root.find("decoder")) decoder_ = read_decoder(*decoder);
    if (const auto list = root.find("added_tokens")) read_added_tokens(*list);
    if (const auto post = root.find("post_processor")) surrounding_ = read_post_processor(*post);
    if (root.find("truncation"))
      notes_.push_back("truncation of the file is not applied: a text is encoded whole");
    if (root.find("padding")) notes_.push_back("padding of the file is not applied");
    cuts_at_marks_ = !pre_.to_bytes && can_cut_at_marks(root.at("model"));
    if (!folder.empty())
      bos_eos_ = find_bos_eos(folder, [&](std::string_view name) { return id_of(name); });
  }

  void encode(std::string_view text, std::vector<int32_t>& out) const override {
    std::string repaired;
    if (!text::is_valid_utf8(text)) {
      repaired = text::to_valid_utf8(text);
      text = repaired;
    }
    CachePool::Lease lease(caches_);
    std::vector<Segment> segments;
    raw_.split(text, segments);
    for (const Segment& segment : segments) {
      if (segment.id >= 0) {
        out.push_back(segment.id);
      } else {
        encode_raw(segment.text, segment.text.data() == text.data(), out, lease.cache());
      }
    }
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::vector<std::string> tokens;
    tokens.reserve(ids.size());
    for (const int32_t id : ids) tokens.emplace_back(token(id));
    if (decoder_) decoder_->decode(tokens);
    return text::join(tokens, decoder_ ? "" : " ");
  }

  std::string token_bytes(int32_t id) const override {
    const std::string_view text = token(id);
    if (is_added(id)) return std::string(text);
    std::vector<std::string> tokens;
    if (model_->bytes && model_->bytes->contains(id)) return std::string(model_->bytes->token(id));
    return std::string(text);
  }

  int64_t vocab_size() const override {
    return std::max<int64_t>(model_->tokens.size(), static_cast<int64_t>(added_names_.size()));
  }
  std::optional<int32_t> bos_id() const override { return bos_eos_.bos; }
  std::optional<int32_t> eos_id() const override { return bos_eos_.eos; }

  std::vector<int32_t> document_prefix() const override {
    std::vector<int32_t> prefix = surrounding_.before;
    if (bos_eos_.bos && !is_surrounding(*bos_eos_.bos))
      prefix.insert(prefix.begin(), *bos_eos_.bos);
    return prefix;
  }
  std::vector<int32_t> document_suffix() const override {
    std::vector<int32_t> suffix = surrounding_.after;
    if (bos_eos_.eos && !is_surrounding(*bos_eos_.eos)) suffix.push_back(*bos_eos_.eos);
    return suffix;
  }

  std::vector<std::string> description() const override {
    std::vector<std::string> lines = {
        fmt::format("Hugging Face tokenizer.json, {} BPE, {} tokens, {} added tokens",
                    pre_.to_bytes ? "byte-level" : "character", model_->tokens.count(), num_added_),
        fmt::format("text is split by {}",
                    pre_.scanner ? "a built-in scanner" : "the file's stages"),
        fmt::format("BOS from {}", bos_eos_.bos_source),
        fmt::format("EOS from {}", bos_eos_.eos_source)};
    lines.insert(lines.end(), notes_.begin(), notes_.end());
    return lines;
  }

 private:
  // A part of the text without raw added tokens.
  void encode_raw(std::string_view text, bool at_start, std::vector<int32_t>& out,
                  PieceCache& cache) const {
    std::string normalized;
    if (normalizer_) {
      normalized = text;
      normalizer_->normalize(normalized);
      text = normalized;
    }
    if (normalized_.empty()) return encode_plain(text, at_start, out, cache);
    std::vector<Segment> segments;
    normalized_.split(text, segments);
    for (const Segment& segment : segments) {
      if (segment.id >= 0) {
        out.push_back(segment.id);
      } else {
        encode_plain(segment.text, at_start && segment.text.data() == text.data(), out, cache);
      }
    }
  }

  void encode_plain(std::string_view text, bool at_start, std::vector<int32_t>& out,
                    PieceCache& cache) const {
    if (pre_.scanner) {
      std::array<std::string_view, 256> pieces;
      for (size_t position = 0; const size_t n = pre_.scanner->scan(text, position, pieces);) {
        for (size_t i = 0; i < n; ++i) model_->bpe->encode(pieces[i], out, cache);
      }
      return;
    }
    PieceList list;
    if (!text.empty()) list.pieces.push_back({text, at_start});
    for (const auto& stage : pre_.stages) stage->split(list);
    for (const auto& piece : list.pieces) encode_piece(piece.text, out, cache);
  }

  // Cuts a long piece before each ▁ that no token can reach across; the ids are the same and the
  // parts are cached.
  void encode_piece(std::string_view piece, std::vector<int32_t>& out, PieceCache& cache) const {
    size_t begin = 0;
    while (cuts_at_marks_) {
      size_t other = begin;
      while (piece.substr(other).starts_with(kWordMark)) other += kWordMark.size();
      const size_t mark = piece.find(kWordMark, other);
      if (mark == std::string_view::npos) break;
      model_->bpe->encode(piece.substr(begin, mark - begin), out, cache);
      begin = mark;
    }
    model_->bpe->encode(piece.substr(begin), out, cache);
  }

  static bool works_on_characters(const Json& model) {
    return model.boolean_or("byte_fallback", false) ||
           !model.string_or("continuing_subword_prefix", "").empty() ||
           !model.string_or("end_of_word_suffix", "").empty();
  }

  bool can_cut_at_marks(const Json& model) const {
    if (model.boolean_or("ignore_merges", false) || !model_->tokens.find(kWordMark)) return false;
    if (!model.string_or("continuing_subword_prefix", "").empty() ||
        !model.string_or("end_of_word_suffix", "").empty()) {
      return false;
    }
    for (int32_t id = 0; id < model_->tokens.size(); ++id) {
      if (!model_->tokens.contains(id)) continue;
      if (text_part_before_marks(model_->tokens.token(id)).find(kWordMark) != std::string::npos)
        return false;
    }
    return true;
  }

  void read_added_tokens(const Json& list) {
    for (const Json& item : list.items()) {
      AddedToken token;
      token.content = item.at("content").string();
      const int64_t id = item.at("id").integer();
      if (id < 0 || id >= (1 << 30)) item.fail(fmt::format("the id {} is not possible", id));
      token.id = static_cast<int32_t>(id);
      token.special = item.boolean_or("special", false);
      token.single_word = item.boolean_or("single_word", false);
      token.lstrip = item.boolean_or("lstrip", false);
      token.rstrip = item.boolean_or("rstrip", false);
      token.normalized = item.boolean_or("normalized", !token.special);
      check_added(item, token);
      if (token.id >= static_cast<int32_t>(added_names_.size()))
        added_names_.resize(static_cast<size_t>(token.id) + 1);
      added_names_[static_cast<size_t>(token.id)] = token.content;
      ++num_added_;
      if (token.normalized && normalizer_) {
        normalizer_->normalize(token.content);
        normalized_.add(std::move(token));
      } else {
        // Without a normaliser the two kinds still differ in rank: raw tokens are cut out first.
        (token.normalized ? normalized_ : raw_).add(std::move(token));
      }
    }
  }

  void check_added(const Json& item, const AddedToken& token) const {
    if (token.content.empty()) item.fail("an added token without content");
    if (is_added(token.id) && added_names_[static_cast<size_t>(token.id)] != token.content) {
      item.fail(fmt::format("id {} belongs to two added tokens: \"{}\" and \"{}\"", token.id,
                            added_names_[static_cast<size_t>(token.id)], token.content));
    }
    if (model_->tokens.contains(token.id) && model_->tokens.token(token.id) != token.content) {
      item.fail(fmt::format("id {} is \"{}\" in model.vocab and \"{}\" here", token.id,
                            model_->tokens.token(token.id), token.content));
    }
  }

  bool is_added(int32_t id) const {
    return id >= 0 && id < static_cast<int32_t>(added_names_.size()) &&
           !added_names_[static_cast<size_t>(id)].empty();
  }

  std::string_view token(int32_t id) const {
    if (is_added(id)) return added_names_[static_cast<size_t>(id)];
    if (!model_->tokens.contains(id)) {
      throw Error("[tokenizer] {}: no token has the id {} — the vocabulary ends at {}", file_, id,
                  vocab_size() - 1);
    }
    return model_->tokens.token(id);
  }

  std::optional<int32_t> id_of(std::string_view name) const {
    for (size_t id = 0; id < added_names_.size(); ++id) {
      if (!name.empty() && added_names_[id] == name) return static_cast<int32_t>(id);
    }
    return model_->tokens.find(name);
  }

  bool is_surrounding(int32_t id) const {
    const auto has = [&](const std::vector<int32_t>& ids) {
      return std::find(ids.begin(), ids.end(), id) != ids.end();
    };
    return has(surrounding_.before) || has(surrounding_.after);
  }

  std::string file_;
  std::unique_ptr<HfModel> model_;
  std::unique_ptr<Normalizer> normalizer_;
  PreTokenization pre_;
  std::unique_ptr<Decoder> decoder_;
  TokenMatcher raw_, normalized_;
  std::vector<std::string> added_names_;  // by id; empty: no added token
  int64_t num_added_ = 0;
  Surrounding surrounding_;
  BosEos bos_eos_;
  bool cuts_at_marks_ = false;
  std::vector<std::string> notes_;
  CachePool caches_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_hf_tokenizer(const JsonFile& file, const fs::path& folder) {
  return std::make_unique<HfTokenizer>(file, folder);
}

}  // namespace titan::data
