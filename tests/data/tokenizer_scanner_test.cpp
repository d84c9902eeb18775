// The hand-written scanners against the regexes that they stand for.
#include <gtest/gtest.h>

#include <random>

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/code_set.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/regex.h"
#include "data/tokenizer/scanner.h"
#include "data/tokenizer/split.h"
#include "data/tokenizer/unicode.h"

namespace titan::data {
namespace {

// Characters that patterns tell apart, some of each kind.
std::string random_text(std::mt19937& random) {
  static const std::u32string kinds[] = {U"abszSTMDRVELt",
                                         U"éßſKÀ",
                                         U"ǅʰªかー你龥゙",
                                         U"\u0301\u0903\u20DD",
                                         U"0129٣Ⅷ½²",
                                         U" \t\n\r\u00A0\u3000\u2028\u0085",
                                         U"'’!/.-_#$+<^`~|",
                                         U"、。‘№€",
                                         U"\u0001\u200B\uFEFF\u0378",
                                         U"😀𝐀"};
  std::string text;
  const size_t length = random() % 40;
  for (size_t i = 0; i < length; ++i) {
    const auto& kind = kinds[random() % std::size(kinds)];
    const size_t repeats = random() % 8 == 0 ? 3 : 1;
    for (size_t r = 0; r < repeats; ++r) unicode::append(text, kind[random() % kind.size()]);
  }
  return text;
}

std::vector<std::string> by_scanner(const Scanner& scanner, std::string_view text) {
  std::vector<std::string> pieces;
  std::string_view buffer[7];
  for (size_t position = 0; const size_t n = scanner.scan(text, position, buffer);) {
    for (size_t i = 0; i < n; ++i) pieces.emplace_back(buffer[i]);
  }
  return pieces;
}

std::vector<std::string> by_regexes(const std::vector<std::unique_ptr<PreTokenizer>>& stages,
                                    std::string_view text) {
  PieceList list;
  if (!text.empty()) list.pieces.push_back({text, true});
  for (const auto& stage : stages) stage->split(list);
  std::vector<std::string> pieces;
  for (const auto& piece : list.pieces) pieces.emplace_back(piece.text);
  return pieces;
}

void expect_equal(const std::vector<std::string>& regexes, unsigned seed) {
  const auto scanner = known_scanner(regexes);
  ASSERT_TRUE(scanner);
  std::vector<std::unique_ptr<PreTokenizer>> stages;
  for (const auto& regex : regexes)
    stages.push_back(make_split(regex_finder(regex), SplitBehavior::kIsolated, false));
  std::mt19937 random(seed);
  for (int round = 0; round < 1000; ++round) {
    const std::string text = random_text(random);
    ASSERT_EQ(by_scanner(*scanner, text), by_regexes(stages, text)) << text;
  }
}

TEST(Scanner, EachGivesThePiecesOfItsRegexOnRandomText) {
  unsigned seed = 1;
  for (const char* regex :
       {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern, kO200kPattern, kTekkenPattern}) {
    expect_equal({regex}, seed++);
  }
  expect_equal({kDeepSeekPatterns[0], kDeepSeekPatterns[1], kDeepSeekPatterns[2]}, seed);
}

std::vector<std::string> matches(const char* pattern, RegexDialect dialect, std::string_view text) {
  const Regex regex(pattern, dialect);
  Regex::Scan scan(regex, text);
  std::vector<std::string> found;
  for (size_t at = 0; const auto match = scan.find(at);) {
    found.emplace_back(text.substr(match->begin, match->end - match->begin));
    at = match->end;
    if (match->begin == match->end) break;
  }
  return found;
}

using Strings = std::vector<std::string>;

TEST(Regex, DialectsDifferWhereTheEnginesDo) {
  EXPECT_EQ(matches("a{1,2}+b?", RegexDialect::kOniguruma, "aaaaab"), (Strings{"aaaaab"}));
  EXPECT_EQ(matches("a{1,2}+b?", RegexDialect::kRust, "aaaaab"), (Strings{"aa", "aa", "ab"}));
  EXPECT_EQ(matches("x$", RegexDialect::kOniguruma, "x\nx"), (Strings{"x", "x"}));
  EXPECT_EQ(matches("x$", RegexDialect::kRust, "x\nx"), (Strings{"x"}));
}

TEST(Regex, ClassesNestIntersectAndComplement) {
  EXPECT_EQ(matches("[a-z&&[^aeiou]]+", RegexDialect::kOniguruma, "banana"),
            (Strings{"b", "n", "n"}));
  EXPECT_EQ(matches("[^(\\s|[.,])]+", RegexDialect::kOniguruma, "a.b (c)"),
            (Strings{"a", "b", "c"}));
  EXPECT_EQ(matches("[\\P{L}]+|[\\S]", RegexDialect::kOniguruma, "ab1 2"),
            (Strings{"a", "b", "1 2"}));
  EXPECT_EQ(matches("[]a-]+", RegexDialect::kOniguruma, "x]a-y"), (Strings{"]a-"}));
}

TEST(CodeSet, IntersectionAndComplementAgreeWithMembership) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    CodeSet a, b;
    for (int i = 0; i < 5; ++i) {
      for (CodeSet* set : {&a, &b}) {
        const char32_t first = random() % 200;
        set->add(first, first + random() % 20);
      }
    }
    const CodeSet both = a.intersection(b), outside = a.complement();
    for (char32_t code = 0; code < 230; ++code) {
      EXPECT_EQ(both.contains(code), a.contains(code) && b.contains(code));
      EXPECT_NE(outside.contains(code), a.contains(code));
    }
  }
}

TEST(NormalForm, ComposesAndLeavesNewCharactersAlone) {
  EXPECT_EQ(normal_form("e\u0301ﬁ", NormalForm::kNfc), "éﬁ");
  EXPECT_EQ(normal_form("éﬁ", NormalForm::kNfkd), "e\u0301fi");
  EXPECT_EQ(normal_form("\u32FF", NormalForm::kNfkc), "\u32FF");  // Unicode 12.1
}

TEST(Bpe, AHundredThousandSymbolsWithoutABreakTakeNoQuadraticTime) {
  std::vector<PairTable::Entry> entries;
  for (int32_t rank = 0; rank < 12; ++rank) entries.push_back({rank, rank, rank, rank + 1});
  const PairTable pairs(entries);
  std::vector<int32_t> symbols(200000, 0);
  merge_long(pairs, symbols);          // a quadratic way would take minutes
  EXPECT_EQ(symbols.size(), 48u + 4);  // 200000 = 48 * 4096 + 2048 + 1024 + 256 + 64
  EXPECT_EQ(symbols[0], 12);
}

}  // namespace
}  // namespace titan::data
