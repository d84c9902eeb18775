#include "launch/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "launch/output.h"

namespace titan::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::vector<std::string>& words) {
  try {
    parse(words);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(LaunchOptions, WordsAfterTheDashesAreTheCommands) {
  const std::vector<std::string> words = {
      "--nproc", "4", "--log_ranks=0,2", "--no-prefix", "--", "train", "--nproc", "--", "x"};
  const auto options = parse(words).value();
  EXPECT_EQ(options.nproc, 4);
  EXPECT_THAT(options.log_ranks, ElementsAre(0, 2));
  EXPECT_FALSE(options.prefix);
  EXPECT_THAT(options.words, ElementsAre("train", "--nproc", "--", "x"));
}

TEST(LaunchOptions, TorchrunsSpellingIsUnderstood) {
  const std::vector<std::string> words = {"--nproc_per_node=2", "--", "train"};
  EXPECT_EQ(parse(words)->nproc, 2);
}

TEST(LaunchOptions, RefusesWhatCannotBe) {
  EXPECT_THAT(error_of({"--", "train"}), HasSubstr("--nproc"));
  EXPECT_THAT(error_of({"-n", "0", "--", "train"}), HasSubstr("--nproc"));
  EXPECT_THAT(error_of({"-n", "two", "--", "train"}), HasSubstr("--nproc"));
  EXPECT_THAT(error_of({"-n", "2"}), HasSubstr("no command"));
  EXPECT_THAT(error_of({"-n", "2", "train"}), HasSubstr("train"));
  EXPECT_THAT(error_of({"-n", "2", "--", "launch"}), HasSubstr("cannot start itself"));
  EXPECT_THAT(error_of({"-n", "2", "--master-port", "70000", "--", "train"}),
              HasSubstr("--master-port"));
}

TEST(LaunchOptions, LogRanksAreRanksOfTheJob) {
  EXPECT_THAT(parse_log_ranks("all", 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(parse_log_ranks("2, 0,2", 3), ElementsAre(0, 2));
  for (const char* bad : {"3", "-1", "", "0,", "a", "0-2"})
    EXPECT_THROW(parse_log_ranks(bad, 3), Error) << bad;
}

TEST(LineAssembler, HandsOnWholeLines) {
  LineAssembler lines;
  EXPECT_EQ(lines.add("a"), "");
  EXPECT_EQ(lines.add("b\nc\nd"), "ab\nc\n");
  EXPECT_EQ(lines.add("\n"), "d\n");
  EXPECT_EQ(lines.add("rest"), "");
  EXPECT_EQ(lines.finish(), "rest");
  EXPECT_EQ(lines.finish(), "");
}

TEST(LineAssembler, DoesNotHoldALineWithoutEnd) {
  LineAssembler lines;
  const std::string piece(LineAssembler::kLongestLine / 2, 'x');
  EXPECT_EQ(lines.add(piece), "");
  EXPECT_EQ(lines.add(piece), "");
  EXPECT_EQ(lines.add("y").size(), 2 * piece.size() + 1);
}

TEST(WithPrefix, StandsBeforeEachLine) {
  EXPECT_EQ(with_prefix("a\n\nb\n", "p:", ""), "p:a\np:\np:b\n");
  EXPECT_EQ(with_prefix("a", "p:", ""), "p:a\n");
  EXPECT_EQ(with_prefix("", "p:", ""), "");
  EXPECT_EQ(with_prefix("m:a\nam:\n", "p:", "m:"), "m:a\np:am:\n");
}

TEST(Tail, KeepsTheLastLinesAndCutsLongOnes) {
  Tail tail;
  for (int64_t i = 0; i < 100; ++i) tail.add(std::to_string(i) + "\n");
  EXPECT_EQ(tail.lines().size(), 30u);
  EXPECT_EQ(tail.lines().back(), "99");
  tail.add(std::string(1999, 'x') + "é" + std::string(1 << 20, 'y') + "\n");
  EXPECT_EQ(tail.lines().back(), std::string(1999, 'x') + "…");
}

}  // namespace
}  // namespace titan::launch
