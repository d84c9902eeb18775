// A set of code points as sorted ranges, for the character classes of regexes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace titan::data {

struct CodeRange {
  char32_t first, last;  // inclusive
  bool operator==(const CodeRange&) const = default;
};

class CodeSet {
 public:
  CodeSet() = default;
  explicit CodeSet(std::vector<CodeRange> ranges);    // in any order, may overlap
  static CodeSet of_categories(uint32_t categories);  // see unicode.h

  void add(char32_t first, char32_t last) {
    ranges_.push_back({first, last});
    normal_ = false;
  }
  void add(const CodeSet& other);
  CodeSet complement() const;
  CodeSet intersection(const CodeSet& other) const;
  bool contains(char32_t code) const;
  const std::vector<CodeRange>& ranges() const;

 private:
  mutable std::vector<CodeRange> ranges_;
  mutable bool normal_ = true;  // sorted, disjoint, not adjacent
};

// The set of \p{name}: a general category ("L", "Lu", "Letter"), a few binary properties. nullopt:
// not known here.
std::optional<CodeSet> property_set(std::string_view name);

// Which regex engine's meaning of \w, $, {n}+ … applies.
enum class RegexDialect {
  kOniguruma,  // the `tokenizers` package
  kRust,       // tiktoken, and the fixed patterns inside `tokenizers`
};
CodeSet word_set(RegexDialect dialect);  // \w

}  // namespace titan::data
