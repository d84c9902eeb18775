#include "parallel/pipeline/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/message_of.h"

namespace titan::parallel::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::string& csv) {
  return message_of([&] { parse_csv(csv, "a.csv"); });
}

TEST(PipelineCsv, WritesWhatItReads) {
  for (const ScheduleRules& rules : all_schedules()) {
    if (rules.needs_csv) continue;
    const Schedule made = make_schedule(rules.name, 3, rules.default_stages_per_rank, 6);
    const Schedule read = parse_csv(to_csv(made), "b.csv");
    EXPECT_EQ(read.per_rank, made.per_rank) << rules.name;
    EXPECT_EQ(read.rank_of_stage, made.rank_of_stage);
    EXPECT_EQ(read.num_stages, made.num_stages);
    EXPECT_EQ(read.num_microbatches, 6);
    EXPECT_EQ(read.name, "b.csv");
  }
}

TEST(PipelineCsv, TakesBubblesQuotesLineEndsMarksAndOverlaps) {
  const Schedule plain = parse_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "c.csv");
  EXPECT_EQ(parse_csv("\xEF\xBB\xBF"
                      "0F0, 0F1,,,\"0B0\",0B1\r\n,1F0,1B0,(1F1;1B1)OVERLAP_F_B,,\r\n\r\n",
                      "c.csv")
                .per_rank,
            plain.per_rank);
}

TEST(PipelineCsv, RefusesBadCellsByRowColumnAndText) {
  EXPECT_THAT(refusal("0F0,0X1,0B0\n"),
              AllOf(HasSubstr("a.csv: row 1, column 2, '0X1': write <stage><F|I|W|B>")));
  EXPECT_THAT(refusal("0F0,0b0\n"), HasSubstr("letters are capitals — write 0B0"));
  EXPECT_THAT(refusal("0F0,F1,0B\n"),
              AllOf(HasSubstr("column 2, 'F1': write"), HasSubstr("column 3, '0B': write")));
  EXPECT_THAT(refusal("0F0,-1F0\n"), HasSubstr("'-1F0': write"));
  EXPECT_THAT(refusal("0F0,0F1x,0B0\n"), HasSubstr("'0F1x': write"));
  EXPECT_THAT(refusal("0F99999999999999999999\n"), HasSubstr("write"));
  EXPECT_THAT(refusal("0F0,0SEND_F0\n"), HasSubstr("SEND_F is added by titan"));
  EXPECT_THAT(refusal("0UNSHARD,0F0\n"), HasSubstr("UNSHARD is added by titan"));
  EXPECT_THAT(refusal("x,x,x,x,x,x,x\n"), HasSubstr("and 2 more"));
  EXPECT_THAT(refusal("0F0;0B0;0F1;0B1;0F2;0B2;0F3;0B3;0F4;0B4;0F5\n"), HasSubstr("…'"));
  EXPECT_THAT(refusal(" \n\n"), HasSubstr("is empty"));
  EXPECT_THAT(refusal("0F0,0B0\n,,\n1F0,1B0\n"), HasSubstr("row 2 has no action"));
}

TEST(PipelineCsv, RefusesActionsThatAreMissingDoubleOrInTheWrongOrder) {
  EXPECT_THAT(refusal("0F0,0B0\n1F0,1B0,1F0\n"),
              HasSubstr("row 2, column 3, '1F0': 1F0 comes a second time"));
  EXPECT_THAT(refusal("0F0,0B0\n1B0,1F0\n"),
              HasSubstr("row 2, column 1, '1B0': 1B0 comes before its forward"));
  EXPECT_THAT(refusal("0F0,0W0,0I0\n"),
              HasSubstr("column 2, '0W0': 0W0 comes before its backward"));
  EXPECT_THAT(refusal("0F0,0I0,0B0,0W0\n"), HasSubstr("column 3, '0B0'"));
  EXPECT_THAT(refusal("0F0,0I0\n"), HasSubstr("row 1: 0W0 is missing"));
  EXPECT_THAT(refusal("0F0,0F1,0B0,0B1\n1F0,1B0\n"), HasSubstr("row 2: 1F1 is missing"));
  EXPECT_THAT(refusal("0F0,0B0\n1F0,1B0,0F0\n"),
              HasSubstr("row 2, column 3, '0F0': stage 0 is in row 1 already"));
  EXPECT_THAT(refusal("0F0,0B0\n2F0,2B0\n"), HasSubstr("no cell of stage 1"));
  EXPECT_THAT(refusal("0F0,0B999999\n"), HasSubstr("most cells of them are missing"));
}

TEST(PipelineCsv, RefusesRowsThatWaitForEachOther) {
  EXPECT_THAT(
      refusal("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"),
      AllOf(HasSubstr("a.csv would hang"), HasSubstr("rank 0 waits"), HasSubstr("rank 1 waits")));
  // A backward of stage 0 before that of stage 1 on the same rank can never run.
  EXPECT_THAT(refusal("0F0,1F0,0B0,1B0\n"), HasSubstr("0B0 comes before its gradient"));
}

TEST(PipelineCsv, FilesAreReadAndTheirAbsenceIsSaid) {
  EXPECT_THAT(message_of([] { read_csv("/nonexistent/schedule.csv"); }),
              HasSubstr("/nonexistent/schedule.csv"));
}

}  // namespace
}  // namespace titan::parallel::pipeline
