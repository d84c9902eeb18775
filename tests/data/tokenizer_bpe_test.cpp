#include <gtest/gtest.h>

#include <random>

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/scanner.h"
#include "data/tokenizer/trainer.h"

namespace titan::data {
namespace {

std::vector<std::string> pieces_of(const char* pattern, std::string_view text) {
  const auto scanner = known_scanner(pattern);
  std::vector<std::string> pieces;
  std::string_view buffer[3];  // small, so that scanning resumes often
  for (size_t position = 0; const size_t n = scanner->scan(text, position, buffer);) {
    for (size_t i = 0; i < n; ++i) pieces.emplace_back(buffer[i]);
  }
  return pieces;
}

using Pieces = std::vector<std::string>;

TEST(Scanner, SplitsAsTheRegexesDo) {
  EXPECT_EQ(pieces_of(kGpt2Pattern, "Don't  stop 123\n\n now"),
            (Pieces{"Don", "'t", " ", " stop", " 123", "\n\n", " now"}));
  EXPECT_EQ(pieces_of(kLlama3Pattern, "DON'T (x) 12345\r\n\n  y  "),
            (Pieces{"DON", "'T", " (", "x", ")", " ", "123", "45", "\r\n\n", " ", " y", "  "}));
  EXPECT_EQ(pieces_of(kQwen2Pattern, "a12"), (Pieces{"a", "1", "2"}));
  EXPECT_EQ(pieces_of(kO200kPattern, "HelloWorld's ABCdef!!/\n"),
            (Pieces{"Hello", "World's", " ABCdef", "!!/\n"}));
}

TEST(Merge, HeapAndScanGiveTheSameIdsOnRandomInput) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<PairTable::Entry> entries;
    const int alphabet = 2 + static_cast<int>(random() % 4);
    for (int rank = 0; rank < 40; ++rank) {
      const auto any = [&] {
        return static_cast<int32_t>(random() % static_cast<unsigned>(alphabet + rank));
      };
      entries.push_back({any(), any(), rank, alphabet + rank});
    }
    const PairTable pairs(entries);
    std::vector<int32_t> symbols(random() % 300);
    for (auto& symbol : symbols)
      symbol = static_cast<int32_t>(random() % static_cast<unsigned>(alphabet));
    auto other = symbols;
    merge_short(pairs, symbols);
    merge_long(pairs, other);
    ASSERT_EQ(symbols, other) << "round " << round;
  }
}

TEST(ByteLevel, EachByteHasItsOwnCharacter) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  const std::string text = byte_level::to_text(all);
  EXPECT_EQ(byte_level::to_bytes(text), all);
  EXPECT_EQ(byte_level::to_text(" \n"), "ĠĊ");
  EXPECT_FALSE(byte_level::to_bytes("你").has_value());
}

TEST(Trainer, JoinsTheMostFrequentPairFirstAndTheSmallestOfEquals) {
  PieceCounts counts{{"abab", 3}, {"cd", 6}, {"x", 100}};
  const std::vector<std::string> special = {"<s>"};
  const TrainedBpe bpe = train_bpe(counts, 300, special);
  ASSERT_EQ(bpe.merges.size(), 3u);
  EXPECT_EQ(bpe.tokens[257], "ab");  // 6 times, as often as "cd", but smaller
  EXPECT_EQ(bpe.tokens[258], "cd");
  EXPECT_EQ(bpe.tokens[259], "abab");
  EXPECT_EQ(bpe.tokens.size(), 260u);  // no pair is left
}

}  // namespace
}  // namespace titan::data
