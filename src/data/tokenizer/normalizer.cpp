#include "data/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/regex.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/unicode_quirks.h"

namespace titan::data {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Applies utf8proc to a text without characters newer than the reference's Unicode.
void append_normal_form(std::string_view text, NormalForm form, std::string& out) {
  if (text.empty()) return;
  int options = UTF8PROC_STABLE;
  options |=
      form == NormalForm::kNfc || form == NormalForm::kNfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* mapped = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                                 static_cast<utf8proc_option_t>(options));
  TITAN_CHECK(size >= 0, "utf8proc: {}", utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
  std::free(mapped);
}

class Form : public Normalizer {
 public:
  explicit Form(NormalForm form) : form_(form) {}
  void normalize(std::string& text) const override {
    if (!is_ascii(text)) text = normal_form(text, form_);
  }

 private:
  NormalForm form_;
};

class Chain : public Normalizer {
 public:
  explicit Chain(std::vector<std::unique_ptr<Normalizer>> stages) : stages_(std::move(stages)) {}
  void normalize(std::string& text) const override {
    for (const auto& stage : stages_) stage->normalize(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> stages_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string_view prefix) : prefix_(prefix) {}
  void normalize(std::string& text) const override {
    if (!text.empty()) text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

class ReplaceString : public Normalizer {
 public:
  ReplaceString(std::string_view pattern, std::string_view content)
      : pattern_(pattern), content_(content) {}
  void normalize(std::string& text) const override {
    size_t found = pattern_.empty() ? std::string::npos : text.find(pattern_);
    if (found == std::string::npos) return;
    std::string result;
    size_t done = 0;
    for (; found != std::string::npos; found = text.find(pattern_, done)) {
      result.append(text, done, found - done).append(content_);
      done = found + pattern_.size();
    }
    result.append(text, done);
    text = std::move(result);
  }

 private:
  std::string pattern_, content_;
};

class ReplaceRegex : public Normalizer {
 public:
  ReplaceRegex(std::string_view pattern, std::string_view content)
      : regex_(pattern, RegexDialect::kOniguruma), content_(content) {}
  void normalize(std::string& text) const override {
    Regex::Scan scan(regex_, text);
    std::string result;
    size_t done = 0, from = 0;
    while (from <= text.size()) {
      const auto match = scan.find(from);
      if (!match) break;
      result.append(text, done, match->begin - done).append(content_);
      done = match->end;
      from = done > match->begin
                 ? done
                 : done + static_cast<size_t>(done < text.size() ? unicode::length(text[done]) : 1);
    }
    result.append(text, std::min(done, text.size()));
    text = std::move(result);
  }

 private:
  Regex regex_;
  std::string content_;
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void normalize(std::string& text) const override {
    const char* begin = text.data();
    const char* end = begin + text.size();
    const auto& table = unicode::table();
    while (left_ && begin < end) {
      const char* after = begin;
      if (!table.is(unicode::next(after), unicode::kSpace)) break;
      begin = after;
    }
    while (right_ && begin < end) {
      const char* before = end - 1;
      while ((static_cast<unsigned char>(*before) & 0xC0) == 0x80) --before;
      if (!table.is(unicode::previous(end), unicode::kSpace)) break;
      end = before;
    }
    text = std::string(begin, end);
  }

 private:
  bool left_, right_;
};

// Normalisers that look at one character at a time.
template <class F>
class PerCharacter : public Normalizer {
 public:
  explicit PerCharacter(F map) : map_(map) {}
  void normalize(std::string& text) const override {
    std::string result;
    result.reserve(text.size());
    for (const char* p = text.data(); p < text.data() + text.size();)
      map_(unicode::next(p), result);
    text = std::move(result);
  }

 private:
  F map_;
};

template <class F>
std::unique_ptr<Normalizer> per_character(F map) {
  return std::make_unique<PerCharacter<F>>(map);
}

class ByteCharacters : public Normalizer {
 public:
  void normalize(std::string& text) const override { text = byte_level::to_text(text); }
};

std::unique_ptr<Normalizer> read_replace(const Json& json) {
  const Json pattern = json.at("pattern");
  const std::string_view content = json.at("content").string();
  if (const auto literal = pattern.find("String")) {
    return std::make_unique<ReplaceString>(literal->string(), content);
  }
  return std::make_unique<ReplaceRegex>(pattern.at("Regex").string(), content);
}

void strip_accent(char32_t code, std::string& out) {
  if (!quirks::is_mark(code)) unicode::append(out, code);
}

void lower(char32_t code, std::string& out) {
  if (code == 0x130) {  // the one character whose lower case has two
    out.append("i\xCC\x87");
  } else {
    unicode::append(out, quirks::lower(code));
  }
}

void nmt(char32_t code, std::string& out) {
  const auto in = [&](char32_t first, char32_t last) { return code >= first && code <= last; };
  if (in(1, 8) || code == 0xB || in(0xE, 0x1F) || code == 0x7F || code == 0x8F || code == 0x9F)
    return;
  const bool blank = code == 9 || code == 0xA || code == 0xC || code == 0xD || code == 0x1680 ||
                     in(0x200B, 0x200F) || code == 0x2028 || code == 0x2029 || code == 0x2581 ||
                     code == 0xFEFF || code == 0xFFFD;
  unicode::append(out, blank ? U' ' : code);
}

}  // namespace

std::string normal_form(std::string_view text, NormalForm form) {
  std::string result;
  result.reserve(text.size());
  const char* end = text.data() + text.size();
  const char* run = text.data();
  // A character that the reference's tables do not know is left alone and joins nothing.
  for (const char* p = run; p < end;) {
    const char* begin = p;
    if (!quirks::is_unknown_to_normal_forms(unicode::next(p))) continue;
    append_normal_form({run, static_cast<size_t>(begin - run)}, form, result);
    result.append(begin, p);
    run = p;
  }
  append_normal_form({run, static_cast<size_t>(end - run)}, form, result);
  return result;
}

std::unique_ptr<Normalizer> read_normalizer(const Json& json) {
  const std::string_view type = json.at("type").string();
  if (type == "NFC") return std::make_unique<Form>(NormalForm::kNfc);
  if (type == "NFD") return std::make_unique<Form>(NormalForm::kNfd);
  if (type == "NFKC") return std::make_unique<Form>(NormalForm::kNfkc);
  if (type == "NFKD") return std::make_unique<Form>(NormalForm::kNfkd);
  if (type == "Prepend") return std::make_unique<Prepend>(json.at("prepend").string());
  if (type == "Replace") return read_replace(json);
  if (type == "Strip") {
    return std::make_unique<Strip>(json.boolean_or("strip_left", true),
                                   json.boolean_or("strip_right", true));
  }
  if (type == "StripAccents") return per_character(strip_accent);
  if (type == "Lowercase") return per_character(lower);
  if (type == "Nmt") return per_character(nmt);
  if (type == "ByteLevel") return std::make_unique<ByteCharacters>();
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Normalizer>> stages;
    for (const Json& stage : json.at("normalizers").items())
      stages.push_back(read_normalizer(stage));
    return std::make_unique<Chain>(std::move(stages));
  }
  json.fail(fmt::format("the normalizer {} is not supported", type));
}

}  // namespace titan::data
