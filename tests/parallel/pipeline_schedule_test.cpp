#include "parallel/pipeline/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "parallel/message_of.h"

namespace titan::parallel::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string text_of(const Schedule& schedule) {
  std::vector<std::string> ranks;
  for (const auto& list : schedule.per_rank) {
    std::vector<std::string> words;
    for (const Action& action : list) words.push_back(to_text(action));
    ranks.push_back(text::join(words, " "));
  }
  return text::join(ranks, " / ");
}

std::string fnv1a(std::string_view text) {
  uint64_t value = 0xCBF29CE484222325;
  for (const char byte : text) value = (value ^ static_cast<uint8_t>(byte)) * 0x100000001B3;
  return fmt::format("{:016x}", value);
}

std::string refusal(std::string_view name, int64_t ranks, int64_t per_rank, int64_t microbatches) {
  return message_of([&] { make_schedule(name, ranks, per_rank, microbatches); });
}

struct GoldenCase {
  std::string name, order;
  int64_t num_ranks, stages_per_rank, num_microbatches;
};

std::vector<GoldenCase> golden_cases() {
  std::vector<GoldenCase> cases;
  std::istringstream lines(files::read(TITAN_SOURCE_DIR "/tests/golden/pipeline_schedules.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    GoldenCase one;
    words >> one.name >> one.num_ranks >> one.stages_per_rank >> one.num_microbatches >> std::ws;
    std::getline(words, one.order);
    cases.push_back(one);
  }
  return cases;
}

TEST(PipelineSchedule, ListsEqualThoseOfPyTorch) {
  int64_t whole = 0, hashed = 0;
  for (const GoldenCase& one : golden_cases()) {
    if (one.order == "refused") continue;
    const std::string ours =
        text_of(make_schedule(one.name, one.num_ranks, one.stages_per_rank, one.num_microbatches));
    const bool is_hash = one.order.starts_with("hash=");
    (is_hash ? hashed : whole) += 1;
    ASSERT_EQ(is_hash ? "hash=" + fnv1a(ours) : ours, one.order)
        << one.name << " ranks " << one.num_ranks << " stages per rank " << one.stages_per_rank
        << " micro-batches " << one.num_microbatches << ": " << ours;
  }
  EXPECT_GT(whole, 100);
  EXPECT_GT(hashed, 700);
}

TEST(PipelineSchedule, RefusesWhatPyTorchRefusesExceptFewMicrobatchesIn1F1B) {
  int64_t refused = 0;
  for (const GoldenCase& one : golden_cases()) {
    if (one.order != "refused") continue;
    const std::string message =
        refusal(one.name, one.num_ranks, one.stages_per_rank, one.num_microbatches);
    if (one.name == "1F1B") {
      EXPECT_EQ(message, "no error");
    } else {
      EXPECT_THAT(message, HasSubstr(fmt::format("{}", one.num_microbatches)));
      ++refused;
    }
  }
  EXPECT_GT(refused, 50);
}

TEST(PipelineSchedule, RefusalsNameTheNearestLegalNumbers) {
  EXPECT_THAT(refusal("Interleaved1F1B", 4, 2, 11),
              AllOf(HasSubstr("11 micro-batches in 2 rounds"), HasSubstr("take 10 or 12 ")));
  EXPECT_THAT(refusal("interleavedzerobubble", 4, 2, 13), HasSubstr("take 12 or 15 "));
  EXPECT_THAT(refusal("DualPipeV", 4, 2, 7), HasSubstr("at least 8 micro-batches"));
  EXPECT_THAT(refusal("1F1B", 4, 2, 8), HasSubstr("exactly 1 stage per rank, not 2"));
  EXPECT_THAT(refusal("ZBVZeroBubble", 4, 3, 8), HasSubstr("exactly 2 stages per rank, not 3"));
  EXPECT_THAT(refusal("GPipe", 0, 1, 8), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("GPipe", 65536, 1, int64_t{1} << 60), HasSubstr("fewer micro-batches"));
}

TEST(PipelineSchedule, NamesAreFoundInAnyCaseAndSlipsGetAHint) {
  EXPECT_EQ(schedule_rules("gpipe").name, "GPipe");
  EXPECT_EQ(schedule_rules("INTERLEAVED1F1B").name, "Interleaved1F1B");
  EXPECT_EQ(schedule_rules("dualpipev").default_stages_per_rank, 2);
  EXPECT_THAT(message_of([] { schedule_rules("Interleaved1B1F"); }),
              HasSubstr("did you mean 'Interleaved1F1B'?"));
  EXPECT_THAT(refusal("PipelineScheduleMulti", 2, 2, 4),
              HasSubstr("pipeline_parallel_schedule_csv"));
}

TEST(PipelineSchedule, StagesAreDealtInALoopOrAV) {
  using Ranks = std::vector<int64_t>;
  EXPECT_EQ(place_stages(Placement::kLoop, 3, 2), (Ranks{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(place_stages(Placement::kV, 3, 2), (Ranks{0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(make_schedule("ZBVZeroBubble", 4, 2, 8).stages_of_rank(1), (Ranks{1, 6}));
}

class BrokenSchedule : public ::testing::Test {
 protected:
  Schedule schedule_ = make_schedule("InterleavedZeroBubble", 2, 1, 3);
  std::vector<Action>& rank1() { return schedule_.per_rank[1]; }
  std::string problem() {
    return message_of([&] { require_complete(schedule_); });
  }
};

TEST_F(BrokenSchedule, IsRefusedByRankAndAction) {
  EXPECT_EQ(problem(), "no error");
  const Schedule good = schedule_;
  rank1().push_back(rank1()[0]);
  EXPECT_THAT(problem(), HasSubstr("rank 1, action 9: 1F0 comes a second time"));
  schedule_ = good;
  rank1().erase(rank1().begin());
  EXPECT_THAT(problem(), HasSubstr("1I0 comes before its forward"));
  schedule_ = good;
  const Action last = rank1().back();
  rank1().pop_back();
  EXPECT_THAT(problem(), HasSubstr("rank 1: " + to_text(last) + " is missing"));
  rank1().insert(rank1().begin() + 1, last);
  EXPECT_THAT(problem(), HasSubstr("comes before its forward"));
  schedule_ = good;
  rank1()[0].stage = 0;
  EXPECT_THAT(problem(), HasSubstr("0F0 is a stage of rank 0"));
  rank1()[0] = {ActionKind::kForward, 1, 3};
  EXPECT_THAT(problem(), HasSubstr("names no micro-batch, there are 3"));
  rank1()[0] = {ActionKind::kSendForward, 1, 0};
  EXPECT_THAT(problem(), HasSubstr("is no computation"));
  schedule_ = good;
  rank1().push_back({ActionKind::kBackward, 1, 0});
  EXPECT_THAT(problem(), HasSubstr("1B0 comes besides I and W"));
}

}  // namespace
}  // namespace titan::parallel::pipeline
