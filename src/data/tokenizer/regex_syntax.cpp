// Rewriting a tokenizer's regex into PCRE2's syntax; see regex.h.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

#include "base/error.h"
#include "data/tokenizer/regex.h"
#include "data/tokenizer/unicode.h"

namespace titan::data {
namespace {

constexpr char32_t kLastCode = 0x10FFFF;

// The set of a property that only PCRE2 knows (a script), in the Unicode version of the PCRE2 that
// is linked.
std::optional<CodeSet> set_by_pcre2(const std::string& name);

// A script without its extensions, which newer PCRE2 (10.40) adds unless told not to. Han is
// completed to Unicode 16.
std::optional<CodeSet> script_set(const std::string& name) {
  auto set = set_by_pcre2("sc:" + name);
  if (!set) set = set_by_pcre2(name);
  if (set && (name == "Han" || name == "Hani")) {
    set->add(0x31350, 0x323AF);
    set->add(0x2EBF0, 0x2EE5D);
  }
  return set;
}

std::optional<CodeSet> set_by_pcre2(const std::string& name) {
  const std::string pattern = "\\p{" + name + "}+";
  int error = 0;
  size_t place = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF, &error, &place, nullptr);
  if (!code) return std::nullopt;
  std::string all;
  std::vector<char32_t> codes;
  std::vector<size_t> offsets;
  for (char32_t c = 0; c <= kLastCode; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    codes.push_back(c);
    offsets.push_back(all.size());
    unicode::append(all, c);
  }
  offsets.push_back(all.size());
  auto* match = pcre2_match_data_create_from_pattern(code, nullptr);
  CodeSet set;
  size_t at = 0;
  while (pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(all.data()), all.size(), at,
                     PCRE2_NO_UTF_CHECK, match, nullptr) > 0) {
    const size_t* bounds = pcre2_get_ovector_pointer(match);
    for (auto i = std::lower_bound(offsets.begin(), offsets.end(), bounds[0]) - offsets.begin();
         offsets[static_cast<size_t>(i)] < bounds[1]; ++i) {
      set.add(codes[static_cast<size_t>(i)], codes[static_cast<size_t>(i)]);
    }
    at = bounds[1];
  }
  pcre2_match_data_free(match);
  pcre2_code_free(code);
  return set;
}

class Rewriter {
 public:
  Rewriter(std::string_view pattern, RegexDialect dialect)
      : pattern_(pattern), text_(unicode::decode(pattern)), dialect_(dialect) {}

  std::string run() {
    while (at_ < text_.size()) step();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error("[tokenizer] the regex {}: {} at character {}", pattern_, problem, at_ + 1);
  }
  bool more() const { return at_ < text_.size(); }
  char32_t peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0;
  }
  bool onig() const { return dialect_ == RegexDialect::kOniguruma; }

  // An atom of the pattern is about to be written: a quantifier that follows applies to what starts
  // here.
  void atom() { atom_begin_ = out_.size(); }

  void step() {
    const char32_t c = text_[at_];
    if (c == '[') {
      ++at_;
      atom();
      write(parse_class());
    } else if (c == '\\') {
      atom();
      escape();
    } else if (c == '(') {
      group();
    } else if (c == ')') {
      if (groups_.empty()) fail("a ) without its (");
      atom_begin_ = groups_.back();
      groups_.pop_back();
      copy();
    } else if (c == '*' || c == '+' || c == '?') {
      copy();
      if (peek() == '+' || peek() == '?') copy();
    } else if (c == '{' && interval()) {
      return;
    } else if (c == '^' || c == '$') {
      anchor(c);
    } else {
      if (c != '|' && c != '.') atom();
      if (c == '.') atom();
      copy();
    }
  }

  void copy() { unicode::append(out_, text_[at_++]); }

  void anchor(char32_t c) {
    ++at_;
    atom();
    if (onig()) out_ += c == '^' ? "(?m:^)" : "(?m:$)";  // always at line ends
    if (!onig()) out_ += c == '^' ? "\\A" : "\\z";
  }

  // {n}, {n,}, {,m}, {n,m}: false when the brace starts none and is literal.
  bool interval() {
    size_t end = at_ + 1;
    while (end < text_.size() && (text_[end] == ',' || (text_[end] >= '0' && text_[end] <= '9')))
      ++end;
    if (end >= text_.size() || text_[end] != '}' || end == at_ + 1) return false;
    std::string bounds = unicode::encode(std::u32string_view(text_).substr(at_ + 1, end - at_ - 1));
    if (bounds == ",") return false;
    if (bounds[0] == ',') bounds = "0" + bounds;
    at_ = end + 1;
    out_ += "{" + bounds + "}";
    if (peek() == '?') copy();
    if (peek() == '+') {
      // Possessive in one dialect; in the other the + repeats the whole.
      if (onig()) {
        out_.insert(atom_begin_, "(?:");
        out_ += ")";
      }
      copy();
    }
    return true;
  }

  void group() {
    groups_.push_back(out_.size());
    copy();
    if (peek() != '?') return;
    copy();
    // Inline options: Oniguruma's m is what others call s.
    while (more() &&
           (peek() == 'i' || peek() == 'm' || peek() == 's' || peek() == 'x' || peek() == '-')) {
      if (peek() == 'x') fail("the option x is not supported");
      if (onig() && peek() == 'm') {
        ++at_;
        out_ += 's';
      } else {
        copy();
      }
    }
    if (peek() == '<') {
      copy();
      return;
    }
    if (peek() == ':' || peek() == '=' || peek() == '!' || peek() == '>') copy();
  }

  void escape() {
    const char32_t c = peek(1);
    if (c == 'b' || c == 'B') {
      at_ += 2;
      const std::string word = spelled(word_set(dialect_));
      const std::string before = "(?<=" + word + ")", not_before = "(?<!" + word + ")";
      const std::string after = "(?=" + word + ")", not_after = "(?!" + word + ")";
      out_ += c == 'b' ? "(?:" + before + not_after + "|" + not_before + after + ")"
                       : "(?:" + before + after + "|" + not_before + not_after + ")";
      return;
    }
    if (c == 'A' || c == 'z' || c == 'Z' || c == 'G' || c == 'K' || c == 'R' || c == 'X' ||
        (c >= '1' && c <= '9')) {
      copy();
      copy();
      return;
    }
    write(parse_escape());
  }

  // After "[": a class as a set, up to and with its "]".
  CodeSet parse_class() {
    const bool negated = peek() == '^';
    if (negated) ++at_;
    CodeSet set;
    std::optional<CodeSet> left;  // of &&
    for (bool first = true;; first = false) {
      if (!more()) fail("a [ without its ]");
      const char32_t c = peek();
      if (c == ']' && !first) {
        ++at_;
        break;
      }
      if (c == '&' && peek(1) == '&') {
        at_ += 2;
        left = left ? left->intersection(set) : set;
        set = CodeSet();
        continue;
      }
      if (c == '[') {
        if (peek(1) == ':') fail("a POSIX class is not supported");
        ++at_;
        set.add(parse_class());
        continue;
      }
      range(set);
    }
    if (left) set = left->intersection(set);
    return negated ? set.complement() : set;
  }

  // One character, an escape or a range "a-b" inside a class.
  void range(CodeSet& set) {
    const CodeSet first = peek() == '\\' ? parse_escape() : single(text_[at_++]);
    if (peek() != '-' || peek(1) == ']' || peek(1) == 0 || !is_single(first)) {
      set.add(first);
      return;
    }
    ++at_;
    if (peek() == '[') fail("a range that ends with a class");
    const CodeSet last = peek() == '\\' ? parse_escape() : single(text_[at_++]);
    if (!is_single(last)) {  // "a-\s": the minus is itself
      set.add(first);
      set.add('-', '-');
      set.add(last);
      return;
    }
    const char32_t from = first.ranges()[0].first, to = last.ranges()[0].first;
    if (from > to) fail("a range that runs backwards");
    set.add(from, to);
  }

  static CodeSet single(char32_t code) { return CodeSet({{code, code}}); }
  static bool is_single(const CodeSet& set) {
    return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last;
  }

  // "\…" as a set.
  CodeSet parse_escape() {
    ++at_;
    if (!more()) fail("a \\ at the end");
    const char32_t c = text_[at_++];
    switch (c) {
      case 'n':
        return single('\n');
      case 't':
        return single('\t');
      case 'r':
        return single('\r');
      case 'f':
        return single('\f');
      case 'v':
        return single('\v');
      case 'a':
        return single('\a');
      case 'e':
        return single(0x1B);
      case '0':
        return single(0);
      case 's':
        return CodeSet::of_categories(unicode::kSpace);
      case 'S':
        return CodeSet::of_categories(unicode::kSpace).complement();
      case 'd':
        return CodeSet::of_categories(mask(unicode::Category::kNd));
      case 'D':
        return CodeSet::of_categories(mask(unicode::Category::kNd)).complement();
      case 'w':
        return word_set(dialect_);
      case 'W':
        return word_set(dialect_).complement();
      case 'h':
        return CodeSet({{'0', '9'}, {'a', 'f'}, {'A', 'F'}});
      case 'H':
        return CodeSet({{'0', '9'}, {'a', 'f'}, {'A', 'F'}}).complement();
      case 'p':
      case 'P':
        return parse_property(c == 'P');
      case 'x':
      case 'u':
        return single(parse_hex(c));
      default:
        break;
    }
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      --at_;
      fail(fmt::format("the escape \\{} is not supported", static_cast<char>(c)));
    }
    return single(c);
  }

  CodeSet parse_property(bool negated) {
    std::string name;
    if (peek() == '{') {
      ++at_;
      if (peek() == '^') {
        negated = !negated;
        ++at_;
      }
      while (more() && peek() != '}') unicode::append(name, text_[at_++]);
      if (!more()) fail("a \\p{ without its }");
      ++at_;
    } else if (more()) {
      unicode::append(name, text_[at_++]);
    }
    for (const char* prefix : {"Script=", "sc=", "gc=", "General_Category="}) {
      if (name.rfind(prefix, 0) == 0) name.erase(0, std::string_view(prefix).size());
    }
    auto set = property_set(name);
    if (!set) set = script_set(name);
    if (!set) fail(fmt::format("the property {} is not known", name));
    return negated ? set->complement() : *set;
  }

  // After \x or \u: two (\x41) or four (\\u0041) digits, or any number in braces.
  char32_t parse_hex(char32_t kind) {
    const bool braces = peek() == '{';
    if (braces) ++at_;
    char32_t value = 0;
    size_t digits = 0;
    for (; more() && digits < (braces ? 8u : kind == 'x' ? 2u : 4u); ++digits) {
      const char32_t c = peek();
      const int digit = c >= '0' && c <= '9'   ? static_cast<int>(c - '0')
                        : c >= 'a' && c <= 'f' ? static_cast<int>(c - 'a') + 10
                        : c >= 'A' && c <= 'F' ? static_cast<int>(c - 'A') + 10
                                               : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<char32_t>(digit);
      ++at_;
    }
    if (braces && peek() == '}') {
      ++at_;
    } else if (braces || digits == 0) {
      fail("a hexadecimal escape that is not complete");
    }
    if (value > kLastCode) fail("a code point beyond U+10FFFF");
    return value;
  }

  static std::string spelled(const CodeSet& set) {
    std::string text = "[";
    const auto put = [&](char32_t first, char32_t last) {
      if (first > last) return;
      text += fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(first));
      if (last > first) text += fmt::format("-\\x{{{:x}}}", static_cast<uint32_t>(last));
    };
    for (const CodeRange& range : set.ranges()) {  // without the surrogates, which no text holds
      put(range.first, std::min<char32_t>(range.last, 0xD7FF));
      put(std::max<char32_t>(range.first, 0xE000), range.last);
    }
    return text == "[" ? "(?!)" : text + "]";
  }
  void write(const CodeSet& set) { out_ += spelled(set); }

  std::string_view pattern_;
  std::u32string text_;
  RegexDialect dialect_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_begin_ = 0;
  std::vector<size_t> groups_;  // where each open group starts in out_
};

}  // namespace

std::string rewrite_regex(std::string_view pattern, RegexDialect dialect) {
  return Rewriter(pattern, dialect).run();
}

}  // namespace titan::data
