#include "parallel/pipeline/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/files.h"
#include "base/text.h"
#include "parallel/message_of.h"
#include "parallel/pipeline/lower.h"

namespace titan::parallel::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr GatherPolicy kPolicies[] = {GatherPolicy::kNever, GatherPolicy::kWholeStep,
                                      GatherPolicy::kAroundUse};

Report run(std::string_view name, int64_t ranks, int64_t per_rank, int64_t microbatches,
           const Costs& costs = {}) {
  return simulate(lower(make_schedule(name, ranks, per_rank, microbatches), GatherPolicy::kNever),
                  costs);
}

std::string outcome(const Schedule& lowered) {
  return message_of([&] { simulate(lowered); });
}

std::vector<std::string> words(const std::vector<Action>& list) {
  std::vector<std::string> texts;
  for (const Action& action : list) texts.push_back(to_text(action));
  return texts;
}

// Share of p - 1 bubbles of the length of one micro-batch beside the rank's own work.
double share(double bubbles, double work) { return bubbles / (work + bubbles); }

TEST(PipelineSimulate, BubblesOfGpipeAnd1F1BAreThePublishedOnes) {
  for (const int64_t p : {1, 2, 3, 4, 8}) {
    for (const int64_t m : {1, 2, 4, 7, 16, 32}) {
      for (const char* name : {"GPipe", "1F1B"}) {
        const Report report = run(name, p, 1, m);
        EXPECT_NEAR(report.bubble_share, share(p - 1, m), 1e-12) << name << p << " " << m;
        EXPECT_DOUBLE_EQ(report.makespan, 3 * (m + p - 1));
        // 1F1B keeps what is on its way, GPipe all.
        for (int64_t rank = 0; rank < p; ++rank) {
          EXPECT_EQ(report.ranks[rank].peak_live_activations,
                    name[0] == 'G' ? m : std::min(m, p - rank));
        }
      }
    }
  }
}

TEST(PipelineSimulate, BubblesShrinkWithTheStagesPerRank) {
  for (const int64_t p : {2, 4, 8}) {
    for (const int64_t v : {1, 2, 4}) {
      for (const int64_t rounds : {1, 2, 4}) {
        const int64_t m = rounds * p;
        EXPECT_NEAR(run("Interleaved1F1B", p, v, m).bubble_share, share(p - 1, v * m), 1e-12);
        EXPECT_NEAR(run("LoopedBFS", p, v, m).bubble_share, share(p - 1, v * m), 1e-12);
      }
    }
  }
}

TEST(PipelineSimulate, ZeroBubbleH1HasAThirdOfTheBubbleOf1F1B) {
  for (const int64_t p : {2, 4, 8}) {
    for (const int64_t m : {p, 2 * p, 4 * p}) {
      const Report report = run("InterleavedZeroBubble", p, 1, m);
      // (p - 1) (F + I - W) beside 3 m.
      EXPECT_DOUBLE_EQ(report.makespan, 3 * m + p - 1);
      EXPECT_EQ(report.ranks[0].peak_live_activations, p);
      EXPECT_EQ(report.ranks[p - 1].peak_pending_weights, p);
      EXPECT_DOUBLE_EQ(run("InterleavedZeroBubble", p, 2, m).makespan, 6 * m + p - 1);
    }
  }
}

TEST(PipelineSimulate, ZbvNeverIdlesBetweenItsFirstAndLastAction) {
  for (const int64_t p : {2, 3, 4, 8}) {
    for (const int64_t m : {2 * p, 4 * p}) {
      const Report zbv = run("ZBVZeroBubble", p, 2, m);
      for (const RankReport& rank : zbv.ranks) {
        EXPECT_DOUBLE_EQ(rank.idle_inside, 0);
        EXPECT_EQ(rank.peak_live_activations, 2 * p);
      }
      EXPECT_DOUBLE_EQ(zbv.makespan, 6 * m + p - 1);
      const Report dual = run("DualPipeV", p, 2, m);
      EXPECT_DOUBLE_EQ(dual.makespan, 6 * m + p - 1);
      EXPECT_EQ(dual.ranks[0].peak_live_activations, 2 * p + 1);
    }
  }
}

TEST(PipelineSimulate, NoNamedScheduleHangsWithAnyLegalNumbers) {
  int64_t runs = 0, refused = 0;
  for (const ScheduleRules& rules : all_schedules()) {
    if (rules.needs_csv) continue;
    for (int64_t p = 1; p <= 7; ++p) {
      for (int64_t v = 1; v <= 3; ++v) {
        if (rules.only_stages_per_rank.value_or(v) != v) continue;
        for (int64_t m = 1; m <= 18; ++m) {
          Schedule schedule;
          const std::string problem =
              message_of([&] { schedule = make_schedule(rules.name, p, v, m); });
          if (problem != "no error") {
            EXPECT_THAT(problem, AllOf(StartsWith("[pipeline] "), HasSubstr("micro-batches")));
            ++refused;
            continue;
          }
          for (const GatherPolicy policy : kPolicies) {
            EXPECT_EQ(outcome(lower(schedule, policy)), "no error")
                << rules.name << " ranks " << p << " stages " << v << " micro-batches " << m;
            ++runs;
          }
        }
      }
    }
  }
  EXPECT_GT(runs, 3000);
  EXPECT_LT(refused, 700);
}

TEST(PipelineSimulate, TakesCostsPerKindAndTheTimeOfTransfers) {
  const Costs costs{.forward = 2, .backward = 6, .transfer = 0.5, .reduce = 1};
  const Report report = run("1F1B", 2, 1, 1, costs);
  // forward, message, forward, backward, message, backward, reduction
  EXPECT_DOUBLE_EQ(report.makespan, 2 + 0.5 + 2 + 6 + 0.5 + 6 + 1);
  const TimedAction receive = report.ranks[1].actions[0];
  EXPECT_EQ(to_text(receive.action), "1RECV_F0");
  EXPECT_DOUBLE_EQ(receive.start, 0);
  EXPECT_DOUBLE_EQ(receive.end, 2.5);
  EXPECT_THAT(message_of([] { run("1F1B", 2, 1, 1, {.forward = -1}); }), HasSubstr("-1"));
}

TEST(PipelineLower, PutsMessagesAroundTheComputations) {
  const Schedule lowered = lower(make_schedule("1F1B", 2, 1, 2), GatherPolicy::kNever);
  EXPECT_THAT(words(lowered.per_rank[0]),
              ::testing::ElementsAre("0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0",
                                     "0RECV_B1", "0B1", "0REDUCE_GRAD"));
  EXPECT_THAT(words(lowered.per_rank[1]),
              ::testing::ElementsAre("1RECV_F0", "1F0", "1B0", "1SEND_B0", "1RECV_F1", "1F1", "1B1",
                                     "1SEND_B1", "1REDUCE_GRAD"));
}

TEST(PipelineLower, StagesOfOneRankPassTheirTensorsLocally) {
  const Schedule lowered = lower(make_schedule("ZBVZeroBubble", 2, 2, 3), GatherPolicy::kNever);
  for (const Action& action : lowered.per_rank[1])
    EXPECT_FALSE(is_send(action.kind) && action.stage == 1 &&
                 action.kind == ActionKind::kSendForward);
  const Schedule one = lower(make_schedule("Interleaved1F1B", 1, 3, 2), GatherPolicy::kNever);
  for (const Action& action : one.per_rank[0])
    EXPECT_TRUE(is_compute(action.kind) || action.kind == ActionKind::kReduce);
}

TEST(PipelineLower, GathersForTheStepOrAroundEachUse) {
  const Schedule compute = make_schedule("InterleavedZeroBubble", 2, 1, 2);
  EXPECT_THAT(
      words(lower(compute, GatherPolicy::kWholeStep).per_rank[0]),
      ::testing::ElementsAre("0UNSHARD", "0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0I0",
                             "0W0", "0RECV_B1", "0I1", "0RESHARD", "0W1", "0REDUCE_GRAD"));
  EXPECT_THAT(words(lower(compute, GatherPolicy::kAroundUse).per_rank[0]),
              ::testing::ElementsAre("0UNSHARD", "0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RESHARD",
                                     "0UNSHARD", "0RECV_B0", "0I0", "0RESHARD", "0W0", "0UNSHARD",
                                     "0RECV_B1", "0I1", "0RESHARD", "0W1", "0REDUCE_GRAD"));
}

TEST(PipelineLower, ReceivesInTheOrderOfTheSender) {
  // Rank 1 uses micro-batch 1 before 0, which was sent first.
  Schedule compute = make_schedule("GPipe", 2, 1, 2);
  compute.per_rank[1] = {{ActionKind::kForward, 1, 1},
                         {ActionKind::kForward, 1, 0},
                         {ActionKind::kBackward, 1, 0},
                         {ActionKind::kBackward, 1, 1}};
  const Schedule lowered = lower(compute, GatherPolicy::kNever);
  EXPECT_THAT(words({lowered.per_rank[1].begin(), lowered.per_rank[1].begin() + 4}),
              ::testing::ElementsAre("1RECV_F0", "1RECV_F1", "1F1", "1F0"));
  EXPECT_EQ(outcome(lowered), "no error");
}

TEST(PipelineSimulate, SaysWhoWaitsWhereForWhatInADeadlock) {
  Schedule compute = make_schedule("GPipe", 2, 1, 2);
  std::swap(compute.per_rank[0][1], compute.per_rank[0][2]);  // B0 before F1
  EXPECT_THAT(
      outcome(lower(compute, GatherPolicy::kNever)),
      AllOf(HasSubstr("would hang"),
            HasSubstr("rank 0 waits at action 2 (0RECV_B0) for action 5 (1SEND_B0) of rank 1"),
            HasSubstr("rank 1 waits at action 2 (1RECV_F1) for action 5 (0SEND_F1) of rank "
                      "0")));
}

// What can run next, given what has run: the rules of the data, without ranks.
std::vector<Action> runnable(const std::vector<std::vector<int>>& forwards,
                             const std::vector<std::vector<int>>& backwards) {
  std::vector<Action> next;
  const int64_t stages = std::ssize(forwards);
  for (int64_t s = 0; s < stages; ++s) {
    for (int64_t m = 0; m < std::ssize(forwards[s]); ++m) {
      if (!forwards[s][m] && (s == 0 || forwards[s - 1][m]))
        next.push_back({ActionKind::kForward, s, m});
      if (forwards[s][m] && backwards[s][m] == 0 && (s + 1 == stages || backwards[s + 1][m]))
        next.push_back({ActionKind::kBackwardInput, s, m});
      if (backwards[s][m] == 1) next.push_back({ActionKind::kBackwardWeight, s, m});
    }
  }
  return next;
}

Schedule random_schedule(std::mt19937& random) {
  Schedule schedule{.name = "random", .num_ranks = 3, .num_stages = 5, .num_microbatches = 4};
  for (int64_t stage = 0; stage < 5; ++stage)
    schedule.rank_of_stage.push_back(stage < 3 ? stage : static_cast<int64_t>(random() % 3));
  std::shuffle(schedule.rank_of_stage.begin(), schedule.rank_of_stage.end(), random);
  schedule.per_rank.resize(3);
  std::vector<std::vector<int>> forwards(5, std::vector<int>(4)), backwards = forwards;
  for (auto next = runnable(forwards, backwards); !next.empty();
       next = runnable(forwards, backwards)) {
    const Action action = next[random() % next.size()];
    schedule.per_rank[schedule.rank_of_stage[action.stage]].push_back(action);
    if (action.kind == ActionKind::kForward) {
      forwards[action.stage][action.microbatch] = 1;
    } else {
      ++backwards[action.stage][action.microbatch];
    }
  }
  return schedule;
}

TEST(PipelineSimulate, EveryOrderThatCanRunPasses) {
  std::mt19937 random(7);
  int64_t early = 0;  // receives that stand before another receive of the same computation
  for (int64_t i = 0; i < 300; ++i) {
    const Schedule schedule = random_schedule(random);
    require_complete(schedule);
    for (const GatherPolicy policy : kPolicies) {
      const Schedule lowered = lower(schedule, policy);
      ASSERT_EQ(outcome(lowered), "no error") << i;
      for (const auto& list : lowered.per_rank) {
        for (size_t k = 1; k < list.size(); ++k)
          early += is_receive(list[k - 1].kind) && is_receive(list[k].kind) ? 1 : 0;
      }
    }
  }
  EXPECT_GT(early, 1000);
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  for (const auto& cell : text::split(line, '|')) cells.emplace_back(text::trim(cell));
  return cells;
}

// "16 16 16 16", or "0" when all are 0, divided by the stages per rank.
std::string held(const Report& report, int64_t RankReport::*peak, int64_t stages_per_rank) {
  std::vector<std::string> words;
  bool any = false;
  for (const RankReport& rank : report.ranks) {
    any |= rank.*peak != 0;
    words.push_back(fmt::format(
        "{:g}", static_cast<double>(rank.*peak) / static_cast<double>(stages_per_rank)));
  }
  return any ? text::join(words, " ") : "0";
}

TEST(PipelineSimulate, TheFiguresOfThePageAreMeasured) {
  for (const char* page : {"pipeline.md", "pipeline.zh-CN.md"}) {
    int64_t rows = 0;
    for (const auto& line :
         text::split(files::read(std::string(TITAN_SOURCE_DIR "/docs/") + page), '\n')) {
      const auto cells = cells_of(line);
      if (cells.size() != 8 || cells[2].find_first_not_of("0123456789") != std::string::npos)
        continue;
      const int64_t v = std::stoll(cells[2]);
      const Report report = run(cells[1], 4, v, 16);
      EXPECT_EQ(cells[3], fmt::format("{:g}", report.makespan / static_cast<double>(v))) << line;
      EXPECT_EQ(cells[4], fmt::format("{:.1f}%", 100 * report.bubble_share)) << line;
      EXPECT_EQ(cells[5], held(report, &RankReport::peak_live_activations, v)) << line;
      EXPECT_EQ(cells[6], held(report, &RankReport::peak_pending_weights, v)) << line;
      ++rows;
    }
    EXPECT_EQ(rows, 9) << page;
  }
}

struct Mutant {
  const char* name;
  int64_t ranks, per_rank, microbatches;
};
class PipelineMutations : public ::testing::TestWithParam<Mutant> {
 protected:
  Schedule lowered(GatherPolicy policy) const {
    const Mutant& of = GetParam();
    return lower(make_schedule(of.name, of.ranks, of.per_rank, of.microbatches), policy);
  }
};

TEST_P(PipelineMutations, EveryDroppedOrDoubledActionIsRefused) {
  for (const GatherPolicy policy : kPolicies) {
    const Schedule good = lowered(policy);
    ASSERT_EQ(outcome(good), "no error");
    for (int64_t rank = 0; rank < good.num_ranks; ++rank) {
      for (int64_t i = 0; i < std::ssize(good.per_rank[rank]); ++i) {
        const std::string text = to_text(good.per_rank[rank][i]);
        Schedule bad = good;
        bad.per_rank[rank].erase(bad.per_rank[rank].begin() + i);
        EXPECT_THAT(outcome(bad), StartsWith("[pipeline] ")) << "without " << text;
        bad = good;
        bad.per_rank[rank].insert(bad.per_rank[rank].begin() + i, good.per_rank[rank][i]);
        EXPECT_THAT(outcome(bad), StartsWith("[pipeline] ")) << "twice " << text;
      }
    }
  }
}

TEST_P(PipelineMutations, ActionsBeforeWhatTheyNeedAreRefused) {
  const Schedule good = lowered(GatherPolicy::kAroundUse);
  int64_t swaps = 0;
  for (int64_t rank = 0; rank < good.num_ranks; ++rank) {
    for (size_t i = 0; i + 1 < good.per_rank[rank].size(); ++i) {
      const Action first = good.per_rank[rank][i], second = good.per_rank[rank][i + 1];
      const bool same_stage = first.stage == second.stage;
      const bool same = same_stage && first.microbatch == second.microbatch;
      const bool depends =
          (same && (is_receive(first.kind) || is_send(second.kind))) ||
          (makes_weight_gradient(first.kind) && second.kind == ActionKind::kReduce) ||
          (first.kind == ActionKind::kUnshard && is_compute(second.kind)) ||
          (same_stage && is_compute(first.kind) && first.kind != ActionKind::kBackwardWeight &&
           second.kind == ActionKind::kReshard);
      if (!depends) continue;
      Schedule bad = good;
      std::swap(bad.per_rank[rank][i], bad.per_rank[rank][i + 1]);
      EXPECT_THAT(outcome(bad), StartsWith("[pipeline] "))
          << to_text(second) << " before " << to_text(first);
      ++swaps;
    }
  }
  EXPECT_GT(swaps, 20);
}

TEST_P(PipelineMutations, EverySendOnAnotherPlaceOfItsChannelIsRefused) {
  const Schedule good = lowered(GatherPolicy::kNever);
  for (int64_t rank = 0; rank < good.num_ranks; ++rank) {
    std::vector<size_t> sends;
    for (size_t i = 0; i < good.per_rank[rank].size(); ++i) {
      if (good.per_rank[rank][i].kind == ActionKind::kSendForward) sends.push_back(i);
    }
    if (sends.size() < 2) continue;
    Schedule bad = good;
    std::swap(bad.per_rank[rank][sends[0]], bad.per_rank[rank][sends[1]]);
    EXPECT_THAT(outcome(bad), HasSubstr("comes before its forward"));
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, PipelineMutations,
                         ::testing::Values(Mutant{"GPipe", 3, 1, 4}, Mutant{"1F1B", 3, 1, 4},
                                           Mutant{"Interleaved1F1B", 3, 2, 6},
                                           Mutant{"InterleavedZeroBubble", 3, 2, 6},
                                           Mutant{"ZBVZeroBubble", 3, 2, 6},
                                           Mutant{"DualPipeV", 3, 2, 6}),
                         [](const auto& of) { return "Of" + std::string(of.param.name); });

TEST(PipelineSimulate, AMessageOutOfTurnIsRefused) {
  Schedule bad = lower(make_schedule("GPipe", 2, 1, 2), GatherPolicy::kNever);
  auto& rank1 = bad.per_rank[1];  // RECV_F0 F0 RECV_F1 F1 …
  std::swap(rank1[0], rank1[2]);
  std::swap(rank1[1], rank1[3]);
  EXPECT_THAT(outcome(bad), HasSubstr("1RECV_F1 is not the next message of rank 0, which is "
                                      "1RECV_F0"));
}

TEST(PipelineSimulate, ActionsThatNameNothingAreRefused) {
  const Schedule good = lower(make_schedule("GPipe", 2, 1, 2), GatherPolicy::kNever);
  for (const Action action : {Action{ActionKind::kForward, 2, 0},
                              {ActionKind::kForward, -1, 0},
                              {ActionKind::kForward, 1, 0},
                              {ActionKind::kForward, 0, 2},
                              {ActionKind::kForward, 0, -1},
                              {ActionKind::kReduce, 0, 0},
                              {ActionKind::kReceiveForward, 0, 0},
                              {ActionKind::kSendBackward, 0, 0},
                              {ActionKind::kReceiveBackward, 1, 0},
                              {ActionKind::kReshard, 0, -1}}) {
    Schedule bad = good;
    bad.per_rank[0].insert(bad.per_rank[0].begin(), action);
    EXPECT_THAT(outcome(bad), HasSubstr("rank 0, action 0")) << to_text(action);
  }
}

}  // namespace
}  // namespace titan::parallel::pipeline
