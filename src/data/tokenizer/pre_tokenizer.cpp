#include "data/tokenizer/pre_tokenizer.h"

#include "base/error.h"
#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/split.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/unicode_quirks.h"

namespace titan::data {
namespace {

constexpr const char* kWhitespacePattern = R"(\w+|[^\w\s]+)";

bool is_space(char32_t code) { return unicode::table().is(code, unicode::kSpace); }

bool is_bert_punctuation(char32_t code) { return quirks::is_punctuation(code); }

// A hand-written scanner as a stage among others.
class ScannerStage : public PreTokenizer {
 public:
  explicit ScannerStage(std::unique_ptr<Scanner> scanner) : scanner_(std::move(scanner)) {}
  void split(PieceList& list) const override {
    std::vector<PieceList::Piece> result;
    std::string_view pieces[128];
    for (const auto& piece : list.pieces) {
      bool at_start = piece.at_start;
      for (size_t position = 0; const size_t n = scanner_->scan(piece.text, position, pieces);) {
        for (size_t i = 0; i < n; ++i) {
          result.push_back({pieces[i], at_start});
          at_start = false;
        }
      }
    }
    list.pieces = std::move(result);
  }

 private:
  std::unique_ptr<Scanner> scanner_;
};

// A blank before each piece that has none.
class AddPrefixSpace : public PreTokenizer {
 public:
  void split(PieceList& list) const override {
    for (auto& piece : list.pieces) {
      if (!piece.text.starts_with(' ')) piece.text = list.keep(" " + std::string(piece.text));
    }
  }
};

// Bytes as the characters of the byte alphabet, where another stage follows.
class SpellBytes : public PreTokenizer {
 public:
  void split(PieceList& list) const override {
    for (auto& piece : list.pieces) piece.text = list.keep(byte_level::to_text(piece.text));
  }
};

class Metaspace : public PreTokenizer {
 public:
  enum class Prepend { kAlways, kFirst, kNever };
  Metaspace(std::string_view replacement, Prepend prepend)
      : replacement_(replacement), prepend_(prepend) {}

  void split(PieceList& list) const override {
    for (auto& piece : list.pieces) {
      std::string text;
      text.reserve(piece.text.size() + 8);
      for (const char c : piece.text) c == ' ' ? text.append(replacement_) : text.append(1, c);
      const bool wanted =
          prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && piece.at_start);
      if (wanted && !text.starts_with(replacement_)) text.insert(0, replacement_);
      piece.text = list.keep(std::move(text));
    }
  }

 private:
  std::string replacement_;
  Prepend prepend_;
};

// Every `length` characters; the last piece may be shorter.
class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(int64_t length) : length_(length) {}
  void split(PieceList& list) const override {
    std::vector<PieceList::Piece> result;
    for (const auto& piece : list.pieces) {
      const char* end = piece.text.data() + piece.text.size();
      bool at_start = piece.at_start;
      for (const char* p = piece.text.data(); p < end;) {
        const char* begin = p;
        for (int64_t i = 0; i < length_ && p < end; ++i) unicode::next(p);
        result.push_back({{begin, static_cast<size_t>(p - begin)}, at_start});
        at_start = false;
      }
    }
    list.pieces = std::move(result);
  }

 private:
  int64_t length_;
};

SplitBehavior read_behavior(const Json& json, std::string_view fallback) {
  const std::string_view name = json.string_or("behavior", fallback);
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  json.fail(fmt::format(
      "the behavior {} is not known — Removed, Isolated, MergedWithPrevious, MergedWithNext or "
      "Contiguous",
      name));
}

class StageReader {
 public:
  explicit StageReader(PreTokenization& result) : result_(result) {}

  // After read(): one scanner instead of the stages where one is known for all of them.
  void finish() {
    if (result_.to_bytes && isolating_ && !regexes_.empty())
      result_.scanner = known_scanner(regexes_);
    if (result_.scanner) result_.stages.clear();
  }

  void read(const Json& json) {
    const std::string_view type = json.at("type").string();
    if (type == "Sequence") {
      for (const Json& stage : json.at("pretokenizers").items()) read(stage);
      return;
    }
    // Only the last stage can hand raw bytes to the model; a ByteLevel before another stage writes
    // characters.
    if (result_.to_bytes) {
      result_.to_bytes = false;
      add(std::make_unique<SpellBytes>());
    }
    if (type == "ByteLevel") return read_byte_level(json);
    if (type == "Split") return read_split(json);
    if (type == "Metaspace") return read_metaspace(json);
    if (type == "Whitespace") return split(regex_finder_of_words(), SplitBehavior::kRemoved, true);
    if (type == "WhitespaceSplit")
      return split(character_finder(is_space), SplitBehavior::kRemoved);
    if (type == "Digits") {
      return split(character_finder(quirks::is_number), json.boolean_or("individual_digits", false)
                                                            ? SplitBehavior::kIsolated
                                                            : SplitBehavior::kContiguous);
    }
    if (type == "Punctuation") {
      return split(character_finder(quirks::is_punctuation), read_behavior(json, "Isolated"));
    }
    if (type == "BertPreTokenizer") {
      split(character_finder(is_space), SplitBehavior::kRemoved);
      return split(character_finder(is_bert_punctuation), SplitBehavior::kIsolated);
    }
    if (type == "CharDelimiterSplit") {
      return split(string_finder(json.at("delimiter").string()), SplitBehavior::kRemoved);
    }
    if (type == "FixedLength") return add(std::make_unique<FixedLength>(read_length(json)));
    json.fail(fmt::format("the pre-tokenizer {} is not supported", type));
  }

 private:
  void add(std::unique_ptr<PreTokenizer> stage) {
    result_.stages.push_back(std::move(stage));
    isolating_ = false;
  }
  // A stage that only cuts at the matches of `regex` and keeps everything.
  void add_isolating(std::string_view regex) {
    const bool was_isolating = isolating_;
    auto scanner = known_scanner(regex);
    scanner ? add(std::make_unique<ScannerStage>(std::move(scanner)))
            : add(make_split(regex_finder(regex), SplitBehavior::kIsolated, false));
    regexes_.emplace_back(regex);
    isolating_ = was_isolating;
  }
  void split(StretchFinder finder, SplitBehavior behavior, bool invert = false) {
    add(make_split(std::move(finder), behavior, invert));
  }

  // \w+|[^\w\s]+ with the meaning of the regex crate, unlike the regexes that stand in files.
  static StretchFinder regex_finder_of_words() {
    return regex_finder(kWhitespacePattern, RegexDialect::kRust);
  }

  static int64_t read_length(const Json& json) {
    const auto length = json.find("length");
    const int64_t value = length ? length->integer() : 5;
    if (value < 1) json.fail(fmt::format("a length of {} characters is not possible", value));
    return value;
  }

  void read_byte_level(const Json& json) {
    if (json.boolean_or("add_prefix_space", true)) add(std::make_unique<AddPrefixSpace>());
    if (json.boolean_or("use_regex", true)) add_isolating(kGpt2Pattern);
    result_.to_bytes = true;
  }

  void read_split(const Json& json) {
    const SplitBehavior behavior = read_behavior(json, "Isolated");
    const bool invert = json.boolean_or("invert", false);
    const Json pattern = json.at("pattern");
    if (const auto literal = pattern.find("String")) {
      return split(string_finder(literal->string()), behavior, invert);
    }
    const std::string_view regex = pattern.at("Regex").string();
    // The regexes with a scanner match every character, so that dropping what does not match drops
    // nothing.
    const bool drops_nothing =
        behavior == SplitBehavior::kRemoved && invert && known_scanner(regex) != nullptr;
    if (behavior == SplitBehavior::kIsolated || drops_nothing) return add_isolating(regex);
    split(regex_finder(regex), behavior, invert);
  }

  void read_metaspace(const Json& json) {
    const std::string_view replacement = json.at("replacement").string();
    const std::string_view scheme = json.string_or("prepend_scheme", "always");
    auto prepend = Metaspace::Prepend::kAlways;
    if (scheme == "first") {
      prepend = Metaspace::Prepend::kFirst;
    } else if (scheme == "never" || !json.boolean_or("add_prefix_space", true)) {
      prepend = Metaspace::Prepend::kNever;
    } else if (scheme != "always") {
      json.fail(fmt::format("the prepend_scheme {} is not known — first, always or never", scheme));
    }
    add(std::make_unique<Metaspace>(replacement, prepend));
    if (json.boolean_or("split", true))
      split(string_finder(replacement), SplitBehavior::kMergedWithNext);
  }

  PreTokenization& result_;
  bool isolating_ = true;             // all stages so far are add_isolating()'s
  std::vector<std::string> regexes_;  // of add_isolating()
};

}  // namespace

void spell_bytes(PreTokenization& pre) {
  if (!pre.to_bytes) return;
  if (pre.scanner) pre.stages.push_back(std::make_unique<ScannerStage>(std::move(pre.scanner)));
  pre.stages.push_back(std::make_unique<SpellBytes>());
  pre.to_bytes = false;
}

PreTokenization read_pre_tokenizer(const Json& json) {
  PreTokenization result;
  StageReader reader(result);
  reader.read(json);
  reader.finish();
  return result;
}

}  // namespace titan::data
