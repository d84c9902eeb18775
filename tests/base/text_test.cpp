#include "base/text.h"

#include <gtest/gtest.h>

namespace titan::text {
namespace {

TEST(Text, SplitsAndJoins) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(join(split("a,b", ','), "+"), "a+b");
  EXPECT_EQ(trim(" \t x y \n"), "x y");
}

TEST(Text, FormatsNumbersForPeople) {
  EXPECT_EQ(with_commas(6163712), "6,163,712");
  EXPECT_EQ(with_commas(-12), "-12");
  EXPECT_EQ(bytes(1536), "1.5 KiB");
  EXPECT_EQ(duration(75.2), "1m15s");
  EXPECT_EQ(duration(3700), "1h01m");
}

TEST(Text, FindsTheLikelySlipOnly) {
  const std::vector<std::string> keys = {"training.steps", "training.seq_len", "model.name"};
  EXPECT_EQ(nearest("training.step", keys), "training.steps");
  EXPECT_EQ(nearest("zzzz", keys), std::nullopt);
}

TEST(Text, KnowsIllFormedUtf8) {
  EXPECT_TRUE(is_valid_utf8("a\xC3\xA9\xF0\x9F\x98\x80"));
  EXPECT_FALSE(is_valid_utf8("\xC0\x80"));          // overlong
  EXPECT_FALSE(is_valid_utf8("\xED\xA0\x80"));      // surrogate
  EXPECT_FALSE(is_valid_utf8("\xF4\x90\x80\x80"));  // above U+10FFFF
  int64_t replaced = 0;
  EXPECT_EQ(to_valid_utf8("a\x92z\xF0\x9F\x98", &replaced), "a\xEF\xBF\xBDz\xEF\xBF\xBD");
  EXPECT_EQ(replaced, 2);
}

TEST(Text, StreamsOnlyWholeCharacters) {
  EXPECT_EQ(complete_utf8_prefix("ab"), 2u);
  EXPECT_EQ(complete_utf8_prefix("a\xF0\x9F\x98"), 1u);
  EXPECT_EQ(complete_utf8_prefix("a\xF0\x9F\x98\x80"), 5u);
}

}  // namespace
}  // namespace titan::text
