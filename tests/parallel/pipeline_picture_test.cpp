#include "parallel/pipeline/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/text.h"
#include "parallel/pipeline/lower.h"

namespace titan::parallel::pipeline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Drawn {
  Schedule schedule;
  Report report;
};

Drawn drawn(std::string_view name, int64_t ranks, int64_t per_rank, int64_t microbatches,
            const Costs& costs = {}) {
  Drawn of{lower(make_schedule(name, ranks, per_rank, microbatches), GatherPolicy::kNever), {}};
  of.report = simulate(of.schedule, costs);
  return of;
}

std::string text_of(const Drawn& of, int64_t columns = 120) {
  return draw_text(of.schedule, of.report, columns);
}

int64_t count(const std::string& text, std::string_view what) {
  int64_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  for (const auto& line : text::split(text, '\n')) widest = std::max(widest, line.size());
  return widest;
}

TEST(PipelinePicture, LabelsEveryComputationWhereThereIsRoom) {
  EXPECT_EQ(text_of(drawn("1F1B", 2, 1, 3)),
            "time   |0              5              10    |\n"
            "rank 0 |F0 F1 .  .  B0--- F2 B1--- .  B2--- |\n"
            "rank 1 |.  F0 B0--- F1 B1--- F2 B2--- .  .  |\n");
}

TEST(PipelinePicture, IsTheOneOfThePage) {
  const std::string picture = text_of(drawn("1F1B", 4, 1, 8));
  for (const char* page : {"pipeline.md", "pipeline.zh-CN.md"})
    EXPECT_THAT(files::read(std::string(TITAN_SOURCE_DIR "/docs/") + page), HasSubstr(picture));
}

TEST(PipelinePicture, NamesTheStageWhereARankHasSeveral) {
  const std::string text = text_of(drawn("ZBVZeroBubble", 2, 2, 2));
  EXPECT_THAT(text, HasSubstr("rank 0 |0F0 0F1 "));
  EXPECT_THAT(text, HasSubstr("3W0 "));
}

TEST(PipelinePicture, FallsBackToALetterPerUnitOfTime) {
  const std::string text = text_of(drawn("1F1B", 4, 1, 16));
  EXPECT_THAT(text, HasSubstr("rank 0 |FfFf......BBFbbf"));
  EXPECT_THAT(text, HasSubstr("a letter is one unit of time"));
  EXPECT_THAT(text, Not(HasSubstr("cut:")));
}

TEST(PipelinePicture, IsCutAtTheWidthWithANote) {
  const Drawn of = drawn("GPipe", 12, 1, 200);
  for (const int64_t columns : {40, 80, 120, 300}) {
    const std::string text = text_of(of, columns);
    EXPECT_THAT(text, HasSubstr(" of 633 units of time; --columns 643 or"));
    for (const auto& line : text::split(text, '\n')) {
      const bool row = line.starts_with("rank") || line.starts_with("time");
      EXPECT_TRUE(!row || std::ssize(line) == columns) << line;
    }
  }
  const std::string whole = text_of(of, 643);
  EXPECT_THAT(whole, Not(HasSubstr("cut:")));
  EXPECT_EQ(widest_line(whole), 643U);
}

TEST(PipelinePicture, TakesAnyCosts) {
  EXPECT_THAT(text_of(drawn("1F1B", 2, 1, 2, {.forward = 0, .backward = 0})), HasSubstr("rank 1"));
  EXPECT_THAT(text_of(drawn("1F1B", 2, 1, 2, {.forward = 1e-9, .backward = 1e9})),
              HasSubstr("cut:"));
  EXPECT_THAT(text_of(drawn("1F1B", 2, 1, 1, {.forward = 0.25, .backward = 0.5})),
              HasSubstr("rank 0 |F0 .  .  .  B0--- |"));
}

TEST(PipelinePicture, SvgHasABoxPerComputationAndNothingFromElsewhere) {
  const Drawn of = drawn("ZBVZeroBubble", 3, 2, 6);
  const std::string svg = draw_svg(of.schedule, of.report);
  EXPECT_EQ(count(svg, "<title>"), 6 * 6 * 3);
  EXPECT_EQ(count(svg, "class=\"box F\""), 36);
  EXPECT_EQ(count(svg, "class=\"box I\""), 36);
  EXPECT_EQ(count(svg, "class=\"box W\""), 36);
  EXPECT_EQ(count(svg, "<g>"), count(svg, "</g>"));
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(svg, HasSubstr("I backward of the input"));
  EXPECT_THAT(svg, Not(HasSubstr("B backward<")));  // ZBV has none
  EXPECT_THAT(svg, Not(HasSubstr("href")));
  EXPECT_EQ(count(svg, "http"), 1);  // the namespace
}

TEST(PipelinePicture, SvgEscapesTheNameOfAFile) {
  Drawn of = drawn("GPipe", 2, 1, 2);
  of.schedule.name = "a<b>&\"c\"\x01.csv";
  const std::string svg = draw_svg(of.schedule, of.report);
  EXPECT_THAT(svg, HasSubstr("a&lt;b&gt;&amp;\"c\" .csv"));
}

}  // namespace
}  // namespace titan::parallel::pipeline
