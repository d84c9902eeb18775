#include "data/tokenizer/code_set.h"

#include <algorithm>
#include <utility>

#include "data/tokenizer/unicode.h"

namespace titan::data {
namespace {

using unicode::Category;
using unicode::mask;

constexpr char32_t kLast = 0x10FFFF;

std::optional<uint32_t> categories_of(std::string_view name) {
  static constexpr std::pair<std::string_view, uint32_t> kNames[] = {
      {"L", unicode::kLetter},
      {"Letter", unicode::kLetter},
      {"Lu", mask(Category::kLu)},
      {"Ll", mask(Category::kLl)},
      {"Lt", mask(Category::kLt)},
      {"Lm", mask(Category::kLm)},
      {"Lo", mask(Category::kLo)},
      {"LC", mask(Category::kLu, Category::kLl, Category::kLt)},
      {"L&", mask(Category::kLu, Category::kLl, Category::kLt)},
      {"M", unicode::kMark},
      {"Mark", unicode::kMark},
      {"Mn", mask(Category::kMn)},
      {"Mc", mask(Category::kMc)},
      {"Me", mask(Category::kMe)},
      {"N", unicode::kNumber},
      {"Number", unicode::kNumber},
      {"Nd", mask(Category::kNd)},
      {"Nl", mask(Category::kNl)},
      {"No", mask(Category::kNo)},
      {"P", unicode::kPunctuation},
      {"Punctuation", unicode::kPunctuation},
      {"Pc", mask(Category::kPc)},
      {"Pd", mask(Category::kPd)},
      {"Ps", mask(Category::kPs)},
      {"Pe", mask(Category::kPe)},
      {"Pi", mask(Category::kPi)},
      {"Pf", mask(Category::kPf)},
      {"Po", mask(Category::kPo)},
      {"S", unicode::kSymbol},
      {"Symbol", unicode::kSymbol},
      {"Sm", mask(Category::kSm)},
      {"Sc", mask(Category::kSc)},
      {"Sk", mask(Category::kSk)},
      {"So", mask(Category::kSo)},
      {"Z", mask(Category::kZs, Category::kZl, Category::kZp)},
      {"Separator", mask(Category::kZs, Category::kZl, Category::kZp)},
      {"Zs", mask(Category::kZs)},
      {"Zl", mask(Category::kZl)},
      {"Zp", mask(Category::kZp)},
      {"C", mask(Category::kCc, Category::kCcSpace, Category::kCf, Category::kCo, Category::kCs,
                 Category::kCn)},
      {"Cc", mask(Category::kCc, Category::kCcSpace)},
      {"Cf", mask(Category::kCf)},
      {"Co", mask(Category::kCo)},
      {"Cs", mask(Category::kCs)},
      {"Cn", mask(Category::kCn)},
      {"White_Space", unicode::kSpace},
      {"space", unicode::kSpace},
      {"Space", unicode::kSpace},
  };
  for (const auto& [known, categories] : kNames) {
    if (known == name) return categories;
  }
  return std::nullopt;
}

}  // namespace

CodeSet::CodeSet(std::vector<CodeRange> ranges) : ranges_(std::move(ranges)), normal_(false) {}

CodeSet CodeSet::of_categories(uint32_t categories) {
  const unicode::Table& table = unicode::table();
  CodeSet set;
  for (char32_t code = 0; code <= kLast; ++code) {
    if (!table.is(code, categories)) continue;
    const char32_t first = code;
    while (code < kLast && table.is(code + 1, categories)) ++code;
    set.add(first, code);
  }
  return set;
}

const std::vector<CodeRange>& CodeSet::ranges() const {
  if (normal_) return ranges_;
  std::sort(ranges_.begin(), ranges_.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  std::vector<CodeRange> merged;
  for (const CodeRange& range : ranges_) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  ranges_ = std::move(merged);
  normal_ = true;
  return ranges_;
}

void CodeSet::add(const CodeSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  normal_ = false;
}

CodeSet CodeSet::complement() const {
  CodeSet result;
  char32_t next = 0;
  for (const CodeRange& range : ranges()) {
    if (range.first > next) result.add(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= kLast) result.add(next, kLast);
  return result;
}

CodeSet CodeSet::intersection(const CodeSet& other) const {
  CodeSet outside = complement();
  outside.add(other.complement());
  return outside.complement();
}

bool CodeSet::contains(char32_t code) const {
  const auto& sorted = ranges();
  const auto after =
      std::upper_bound(sorted.begin(), sorted.end(), code,
                       [](char32_t value, const CodeRange& range) { return value < range.first; });
  return after != sorted.begin() && code <= std::prev(after)->last;
}

std::optional<CodeSet> property_set(std::string_view name) {
  if (name == "Any") return CodeSet({{0, kLast}});
  if (name == "ASCII") return CodeSet({{0, 0x7F}});
  const auto categories = categories_of(name);
  return categories ? std::optional(CodeSet::of_categories(*categories)) : std::nullopt;
}

CodeSet word_set(RegexDialect dialect) {
  CodeSet set = CodeSet::of_categories(unicode::kLetter | unicode::kMark |
                                       mask(Category::kNd, Category::kNl, Category::kPc));
  // Alphabetic symbols: circled and squared letters.
  for (const CodeRange& range : {CodeRange{0x24B6, 0x24E9}, CodeRange{0x1F130, 0x1F149},
                                 CodeRange{0x1F150, 0x1F169}, CodeRange{0x1F170, 0x1F189}}) {
    set.add(range.first, range.last);
  }
  if (dialect == RegexDialect::kRust) {
    set.add(0x200C, 0x200D);  // the join controls
  } else {
    for (const CodeRange& range :
         {CodeRange{0xB2, 0xB3}, CodeRange{0xB9, 0xB9}, CodeRange{0xBC, 0xBE}}) {
      set.add(range.first, range.last);
    }
  }
  return set;
}

}  // namespace titan::data
