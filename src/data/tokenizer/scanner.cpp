#include "data/tokenizer/scanner.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "data/tokenizer/unicode.h"

namespace titan::data {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const char* const kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kDeepSeekPatterns[3] = {
    R"(\p{N}{1,3})",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
};

namespace {

using unicode::Category;
using unicode::mask;

constexpr uint32_t kUpperLike =
    mask(Category::kLu, Category::kLt, Category::kLm, Category::kLo) | unicode::kMark;
constexpr uint32_t kLowerLike = mask(Category::kLl, Category::kLm, Category::kLo) | unicode::kMark;
constexpr uint32_t kLetterOrNumber = unicode::kLetter | unicode::kNumber;
constexpr uint32_t kOther = ~(unicode::kSpace | kLetterOrNumber);  // [^\s\p{L}\p{N}]

bool is_newline(char c) { return c == '\r' || c == '\n'; }

// Text and the category of each of its characters, as a one-bit mask.
class Reader {
 public:
  explicit Reader(const unicode::Table& table) : table_(table) {
    for (char32_t c = 0; c < 128; ++c) ascii_[c] = mask(table.category(c));
  }

  // Mask of the character at p, which moves past it. REQUIRES p < end.
  uint32_t take(const char*& p) const {
    const auto byte = static_cast<unsigned char>(*p);
    if (byte < 128) {
      ++p;
      return ascii_[byte];
    }
    return mask(table_.category(unicode::next(p)));
  }
  // True when a character of `set` is at p.
  bool at(const char* p, const char* end, uint32_t set) const { return p < end && (take(p) & set); }
  // End of the longest run of characters of `set` from p on.
  const char* run(const char* p, const char* end, uint32_t set) const {
    while (p < end) {
      const char* after = p;
      if (!(take(after) & set)) break;
      p = after;
    }
    return p;
  }

 private:
  const unicode::Table& table_;
  std::array<uint32_t, 128> ascii_;
};

const char* newlines(const char* p, const char* end) {
  while (p < end && is_newline(*p)) ++p;
  return p;
}

// Length of 's 't 're 've 'm 'll 'd at p (which holds an apostrophe), 0 when there is none. With
// `any_case` also 'S … and 'ſ (U+017F), whose simple case folding is s.
int contraction(const char* p, const char* end, bool any_case) {
  const auto lower = [&](const char* at) -> char {
    if (at >= end) return 0;
    return any_case && *at >= 'A' && *at <= 'Z' ? static_cast<char>(*at + 32) : *at;
  };
  const char first = lower(p + 1), second = lower(p + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  if (first == 'l' && second == 'l') return 3;
  if (any_case && end - p >= 3 && p[1] == '\xC5' && p[2] == '\xBF') return 3;
  return 0;
}

// End of the piece of white space at p: `\s+(?!\S)|\s+`, with `\s*[\r\n]+` before it where the
// regex has that.
const char* space(const Reader& reader, const char* p, const char* end, bool newline_pieces) {
  const char* stop = p;
  const char* after_newline = nullptr;
  const char* last = p;  // begin of the run's last character
  while (stop < end) {
    const char* after = stop;
    if (!(reader.take(after) & unicode::kSpace)) break;
    if (is_newline(*stop)) after_newline = after;
    last = stop;
    stop = after;
  }
  if (newline_pieces && after_newline) return after_newline;
  return stop == end || last == p ? stop : last;
}

// Up to `limit` numbers from p on.
const char* numbers(const Reader& reader, const char* p, const char* end, int limit) {
  while (limit-- > 0 && reader.at(p, end, unicode::kNumber)) reader.take(p);
  return p;
}

struct Gpt2 {
  const char* piece(const Reader& reader, const char* begin, const char* end) const {
    if (*begin == '\'') {
      if (const int length = contraction(begin, end, false)) return begin + length;
    }
    const char* p = begin + (*begin == ' ' ? 1 : 0);
    for (const uint32_t set : {unicode::kLetter, unicode::kNumber, kOther}) {
      if (reader.at(p, end, set)) return reader.run(p, end, set);
    }
    return space(reader, begin, end, false);
  }
};

// Llama 3, GPT-4 (3 digits), Qwen 2 (1 digit).
struct Llama3 {
  int max_digits;

  const char* piece(const Reader& reader, const char* begin, const char* end) const {
    if (*begin == '\'') {
      if (const int length = contraction(begin, end, true)) return begin + length;
    }
    const char* second = begin;
    const uint32_t first = reader.take(second);
    if (first & unicode::kLetter) return reader.run(second, end, unicode::kLetter);
    if (first & unicode::kNumber) return numbers(reader, second, end, max_digits - 1);
    if (!is_newline(*begin) && reader.at(second, end, unicode::kLetter)) {
      return reader.run(second, end, unicode::kLetter);
    }
    const char* p = *begin == ' ' ? second : begin;
    if (reader.at(p, end, kOther)) return newlines(reader.run(p, end, kOther), end);
    return space(reader, begin, end, true);
  }
};

// GPT-4o and Llama 4 (contractions, 3 digits), tekken (none, 1 digit): words split where the case
// changes.
struct O200k {
  int max_digits;
  bool contractions;

  const char* piece(const Reader& reader, const char* begin, const char* end) const {
    const char* second = begin;
    const uint32_t first = reader.take(second);
    const bool has_prefix = !(first & kLetterOrNumber) && !is_newline(*begin);
    const char* word = nullptr;
    if (has_prefix) word = lower_word(reader, second, end);
    if (!word && (first & (kUpperLike | kLowerLike))) word = lower_word(reader, begin, end);
    if (!word && has_prefix) word = upper_word(reader, second, end);
    if (!word) word = upper_word(reader, begin, end);
    if (word)
      return word +
             (contractions && word < end && *word == '\'' ? contraction(word, end, true) : 0);
    if (first & unicode::kNumber) return numbers(reader, second, end, max_digits - 1);
    const char* p = *begin == ' ' ? second : begin;
    if (reader.at(p, end, kOther)) {
      p = reader.run(p, end, kOther);
      while (p < end && (is_newline(*p) || *p == '/')) ++p;
      return p;
    }
    return space(reader, begin, end, true);
  }

 private:
  // [upper]*[lower]+ from p on, with the give-back of a backtracking regex; null when it does not
  // match.
  static const char* lower_word(const Reader& reader, const char* p, const char* end) {
    const char* last_both =
        nullptr;  // end of the last character of the run that also counts as lower
    while (p < end) {
      const char* after = p;
      const uint32_t category = reader.take(after);
      if (!(category & kUpperLike)) {
        if (category & kLowerLike) return reader.run(after, end, kLowerLike);
        break;
      }
      if (category & kLowerLike) last_both = after;
      p = after;
    }
    return last_both;
  }
  // [upper]+[lower]* where lower_word() failed.
  static const char* upper_word(const Reader& reader, const char* p, const char* end) {
    const char* stop = reader.run(p, end, kUpperLike);
    return stop == p ? nullptr : stop;
  }
};

// DeepSeek V3 and later: numbers by three, runs of CJK ideographs and kana, then words, punctuation
// and white space inside what those leave, where the end of such a stretch counts as the end of the
// text.
struct DeepSeek {
  const char* piece(const Reader& reader, const char* begin, const char* end) const {
    const char* p = begin;
    if (reader.take(p) & unicode::kNumber) return numbers(reader, p, end, 2);
    return within(reader, begin, stretch_end(reader, begin, end));
  }

 private:
  static constexpr uint32_t kWordLike = unicode::kLetter | unicode::kMark;
  static constexpr uint32_t kSign = unicode::kPunctuation | unicode::kSymbol;

  static bool is_cjk(const char* p) {
    const char32_t code = static_cast<unsigned char>(*p) < 0xE3 ? 0 : unicode::next(p);
    return (code >= 0x4E00 && code <= 0x9FA5) || (code >= 0x3040 && code <= 0x30FF);
  }

  // End of the run of CJK characters, or of neither CJK nor numbers, that starts at p.
  static const char* stretch_end(const Reader& reader, const char* p, const char* end) {
    const bool cjk = is_cjk(p);
    while (p < end && is_cjk(p) == cjk) {
      const char* after = p;
      if (!cjk && (reader.take(after) & unicode::kNumber)) break;
      p += unicode::length(*p);
    }
    return p;
  }

  static const char* within(const Reader& reader, const char* begin, const char* end) {
    for (const char* p = begin; p < end; p += unicode::length(*p)) {
      if (const char* stop = match(reader, p, end)) return p == begin ? stop : p;
    }
    return end;  // what no alternative matches is one piece
  }

  static bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

  static const char* match(const Reader& reader, const char* begin, const char* end) {
    const char* second = begin;
    const uint32_t first = reader.take(second);
    if ((first & kSign) && static_cast<unsigned char>(*begin) < 0x80 && second < end &&
        is_ascii_letter(*second)) {
      const char* p = second;
      while (p < end && is_ascii_letter(*p)) ++p;
      return p;
    }
    if (first & kWordLike) return reader.run(second, end, kWordLike);
    if (!is_newline(*begin) && !(first & kSign) && reader.at(second, end, kWordLike)) {
      return reader.run(second, end, kWordLike);
    }
    const char* p = *begin == ' ' ? second : begin;
    if (reader.at(p, end, kSign)) return newlines(reader.run(p, end, kSign), end);
    return first & unicode::kSpace ? space(reader, begin, end, true) : nullptr;
  }
};

template <class Rule>
class RuleScanner : public Scanner {
 public:
  explicit RuleScanner(Rule rule) : rule_(rule), reader_(unicode::table()) {}

  size_t scan(std::string_view text, size_t& position,
              std::span<std::string_view> pieces) const override {
    const char* p = text.data() + position;
    const char* end = text.data() + text.size();
    size_t count = 0;
    while (p < end && count < pieces.size()) {
      const char* stop = rule_.piece(reader_, p, end);
      pieces[count++] = {p, static_cast<size_t>(stop - p)};
      p = stop;
    }
    position = static_cast<size_t>(p - text.data());
    return count;
  }

 private:
  Rule rule_;
  Reader reader_;
};

template <class Rule>
std::unique_ptr<Scanner> make(Rule rule) {
  return std::make_unique<RuleScanner<Rule>>(rule);
}

}  // namespace

std::unique_ptr<Scanner> known_scanner(std::string_view regex) {
  if (regex == kGpt2Pattern) return make(Gpt2{});
  if (regex == kLlama3Pattern) return make(Llama3{3});
  if (regex == kQwen2Pattern) return make(Llama3{1});
  if (regex == kO200kPattern) return make(O200k{3, true});
  if (regex == kTekkenPattern) return make(O200k{1, false});
  return nullptr;
}

std::unique_ptr<Scanner> known_scanner(std::span<const std::string> regexes) {
  if (regexes.size() == 1) return known_scanner(regexes[0]);
  if (std::equal(regexes.begin(), regexes.end(), std::begin(kDeepSeekPatterns),
                 std::end(kDeepSeekPatterns))) {
    return make(DeepSeek{});
  }
  return nullptr;
}

}  // namespace titan::data
