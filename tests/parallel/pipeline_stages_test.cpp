#include "parallel/pipeline/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "parallel/message_of.h"
#include "parallel/pipeline/csv.h"
#include "parallel/pipeline/plan.h"

namespace titan::parallel::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> counts(const std::vector<StageLayers>& stages) {
  std::vector<int64_t> counts;
  for (const auto& stage : stages) counts.push_back(stage.num_layers);
  return counts;
}

std::string refusal(int64_t layers, int64_t stages, int64_t first, int64_t last) {
  return message_of([&] { deal_layers(layers, stages, first, last); });
}

TEST(PipelineStages, EmbeddingAndOutputCountAsLayers) {
  EXPECT_THAT(counts(deal_layers(32, 4, 1, 1)), ElementsAre(8, 9, 8, 7));
  EXPECT_THAT(counts(deal_layers(6, 4, 1, 1)), ElementsAre(1, 2, 2, 1));
  EXPECT_THAT(counts(deal_layers(6, 8, 1, 1)), ElementsAre(0, 1, 1, 1, 1, 1, 1, 0));
  EXPECT_THAT(counts(deal_layers(126, 16, 1, 1)),
              ElementsAre(7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7));
  EXPECT_THAT(counts(deal_layers(10, 3, 0, 0)), ElementsAre(4, 3, 3));
  EXPECT_THAT(counts(deal_layers(10, 3, 3, 2)), ElementsAre(2, 5, 3));
  EXPECT_EQ(deal_layers(5, 1, 9, 9), (std::vector<StageLayers>{{true, 0, 5, true, true}}));
  const auto stages = deal_layers(6, 2, 1, 1);
  EXPECT_EQ(stages[0], (StageLayers{true, 0, 3, false, false}));
  EXPECT_EQ(stages[1], (StageLayers{false, 3, 3, true, true}));
}

TEST(PipelineStages, EveryLayerIsDealtOnceInOrder) {
  for (int64_t layers = 1; layers <= 40; ++layers) {
    for (int64_t stages = 1; stages <= 12; ++stages) {
      for (const auto& [first, last] : {std::pair{0, 0}, {1, 1}, {2, 0}, {0, 3}}) {
        std::vector<StageLayers> dealt;
        const std::string problem =
            message_of([&] { dealt = deal_layers(layers, stages, first, last); });
        if (problem != "no error") {
          EXPECT_THAT(problem, HasSubstr("take at most"));
          continue;
        }
        int64_t next = 0;
        for (const auto& stage : dealt) {
          EXPECT_EQ(stage.first_layer, next);
          EXPECT_GE(stage.num_layers, 0);
          next += stage.num_layers;
        }
        EXPECT_EQ(next, layers);
      }
    }
  }
}

TEST(PipelineStages, TooManyStagesAreRefusedWithTheMost) {
  EXPECT_THAT(refusal(6, 9, 1, 1),
              AllOf(HasSubstr("8 for 9 stages"), HasSubstr("at most 8 stages")));
  EXPECT_THAT(refusal(10, 8, 3, 1), AllOf(HasSubstr("1 each, but 3 are needed"),
                                          HasSubstr("at most 4 stages"), HasSubstr("at most 1")));
  EXPECT_EQ(refusal(10, 4, 3, 1), "no error");
}

using Parts = std::vector<std::vector<std::string>>;

TEST(PipelineStages, NamesListTheModulesOfEachStage) {
  const Parts parts = {
      {"tok_embeddings", "layers.0"}, {"layers.2", "layers.1"}, {"output", "norm"}};
  const auto stages = stages_of_names(parts, 3);
  EXPECT_EQ(stages[0], (StageLayers{true, 0, 1, false, false}));
  EXPECT_EQ(stages[1], (StageLayers{false, 1, 2, false, false}));
  EXPECT_EQ(stages[2], (StageLayers{false, 3, 0, true, true}));
  EXPECT_THAT(names_of_stage(stages[1]), ElementsAre("layers.1", "layers.2"));
  for (const auto& dealt :
       {deal_layers(9, 4, 1, 1), deal_layers(6, 8, 1, 1), deal_layers(3, 1, 1, 1)}) {
    Parts names;
    for (const auto& stage : dealt) names.push_back(names_of_stage(stage));
    EXPECT_EQ(stages_of_names(names, dealt.back().first_layer + dealt.back().num_layers), dealt);
  }
}

TEST(PipelineStages, NamesThatAreUnknownMissingDoubleOrOutOfOrderAreRefused) {
  const auto problem = [](const Parts& parts) {
    return message_of([&] { stages_of_names(parts, 2); });
  };
  EXPECT_THAT(problem({{"tok_embeddings", "layers.2"}}),
              AllOf(HasSubstr("part 0: there is no module 'layers.2'"), HasSubstr("layers.1")));
  EXPECT_THAT(problem({{"tok_embeddings", "layers.x"}}), HasSubstr("'layers.x'"));
  EXPECT_THAT(problem({{"tok_embeddings", "layers.0"}, {"norm", "output"}}),
              HasSubstr("part 1: norm where layers.1 has to come"));
  EXPECT_THAT(problem({{"tok_embeddings", "layers.0"}, {"layers.0", "layers.1", "norm", "output"}}),
              HasSubstr("layers.0 where layers.1 has to come"));
  EXPECT_THAT(problem({{"tok_embeddings", "layers.0", "layers.1"}, {"norm"}}),
              HasSubstr("output is in no part"));
  EXPECT_THAT(problem({{"tok_embeddings", "layers.0", "layers.1"}, {}, {"norm", "output"}}),
              HasSubstr("part 1 names no module"));
  EXPECT_THAT(problem({{"tok_embeddings", "layers.0", "layers.1", "norm", "output"}, {"output"}}),
              HasSubstr("output where nothing has to come"));
}

config::Parallelism with(int64_t ranks, const std::string& schedule) {
  config::Parallelism parallelism;
  parallelism.pipeline_parallel_degree = ranks;
  parallelism.pipeline_parallel_schedule = schedule;
  return parallelism;
}

int64_t per_rank(const config::Parallelism& parallelism, int64_t layers) {
  return stages_per_rank(parallelism, schedule_rules(parallelism.pipeline_parallel_schedule),
                         layers);
}

TEST(PipelineStages, LayersPerStageGiveTheNumberOfStages) {
  auto config = with(4, "Interleaved1F1B");
  EXPECT_EQ(per_rank(config, 32), 2);
  config.pipeline_parallel_layers_per_stage = 3;  // 34 / 3: 12 stages
  EXPECT_EQ(per_rank(config, 32), 3);
  config.pipeline_parallel_layers_per_stage = 4;  // 9 stages
  EXPECT_THAT(message_of([&] { per_rank(config, 32); }),
              AllOf(HasSubstr("make 9 stages for 4 ranks"), HasSubstr("take 3 or 9")));
  config = with(2, "1F1B");
  EXPECT_EQ(per_rank(config, 6), 1);
  config.pipeline_parallel_layers_per_stage = 4;
  EXPECT_EQ(per_rank(config, 6), 1);
  config.pipeline_parallel_layers_per_stage = 2;
  EXPECT_THAT(message_of([&] { per_rank(config, 6); }),
              AllOf(HasSubstr("1F1B has 1 stage on each"), HasSubstr("take 4")));
}

TEST(PipelineStages, PartsGiveTheNumberOfStages) {
  auto config = with(2, "Interleaved1F1B");
  config.module_fqns_per_model_part =
      Parts{{"tok_embeddings"}, {"layers.0"}, {"layers.1"}, {"norm", "output"}};
  EXPECT_EQ(per_rank(config, 2), 2);
  EXPECT_EQ(make_stages(config, 2, 4)[1].num_layers, 1);
  EXPECT_THAT(message_of([&] { make_stages(config, 2, 2); }), HasSubstr("4 parts"));
  config.module_fqns_per_model_part->pop_back();
  EXPECT_THAT(message_of([&] { per_rank(config, 2); }),
              AllOf(HasSubstr("3 parts for 2 ranks"), HasSubstr("2 or 4 parts")));
  config.pipeline_parallel_schedule = "1F1B";
  EXPECT_THAT(message_of([&] { per_rank(config, 2); }), HasSubstr("1 stage on each — 2 parts"));
}

TEST(PipelinePlan, IsTheCheckedScheduleOfAConfig) {
  auto config = with(2, "interleaved1f1b");
  const Plan plan = make_plan(config, 6, 8, GatherPolicy::kWholeStep);
  EXPECT_EQ(plan.compute.num_microbatches, 8);
  EXPECT_EQ(plan.stages.size(), 4U);
  EXPECT_EQ(plan.lowered.rank_of_stage, (std::vector<int64_t>{0, 1, 0, 1}));
  EXPECT_TRUE(plan.warnings.empty());
  EXPECT_THAT(make_plan(config, 6, 2, GatherPolicy::kNever).warnings,
              ElementsAre(HasSubstr("2 micro-batches are fewer than the 4 pipeline stages")));
  config.pipeline_parallel_microbatch_size = 3;
  EXPECT_THAT(message_of([&] { make_plan(config, 6, 8, GatherPolicy::kNever); }),
              AllOf(HasSubstr("is 3, which does not divide"), HasSubstr("take 2")));
}

TEST(PipelinePlan, TakesTheScheduleOfACsvFile) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "titan_pipeline_plan.csv";
  files::write_atomically(path, to_csv(make_schedule("ZBVZeroBubble", 2, 2, 4)));
  auto config = with(2, "PipelineScheduleMulti");
  config.pipeline_parallel_schedule_csv = path.string();
  const Plan plan = make_plan(config, 6, 4, GatherPolicy::kNever);
  EXPECT_EQ(plan.lowered.rank_of_stage, (std::vector<int64_t>{0, 1, 1, 0}));
  EXPECT_THAT(message_of([&] { make_plan(config, 6, 8, GatherPolicy::kNever); }),
              AllOf(HasSubstr("for 4 micro-batches, but a step has 8"), HasSubstr("to 4")));
  config.pipeline_parallel_layers_per_stage = 4;
  EXPECT_THAT(message_of([&] { make_plan(config, 6, 4, GatherPolicy::kNever); }),
              AllOf(HasSubstr("has 4 stages"), HasSubstr("layers_per_stage 4 makes 2")));
  config.pipeline_parallel_degree = 4;
  EXPECT_THAT(message_of([&] { make_plan(config, 6, 4, GatherPolicy::kNever); }),
              HasSubstr("rows for 2 ranks"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace titan::parallel::pipeline
