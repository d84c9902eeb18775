// Pipelines equal one process: schedules, layers by name, and reductions that start in time.
#include <gmock/gmock.h>

#include <fstream>

#include "base/error.h"
#include "train/broken_backend.h"
#include "train/layout.h"
#include "train/layout_cases.h"

namespace titan::train {
namespace {

TEST(LayoutPipelines, EveryScheduleEqualsOneProcess) {
  for (const char* schedule : {"GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS",
                               "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"}) {
    for (const bool tied : {false, true}) {
      expect_equal({.shape = {.pp = 2},
                    .args = with_layers(tied ? models::tiny_qwen3() : models::tiny_llama3(), 4),
                    .steps = 10,
                    .recompute = tied ? std::optional(ops::Kept::kNothing) : std::nullopt,
                    .schedule = schedule},
                   schedule);
    }
  }
  expect_equal({.shape = {.pp = 4}, .args = with_layers(models::tiny_qwen3(), 4), .steps = 4},
               "pp 4");
}

TEST(LayoutPipelines, ModulesByNameMayPartNormAndOutput) {
  using Modules = std::vector<std::vector<std::string>>;
  const Modules two = {{"tok_embeddings", "layers.0", "layers.1", "norm"}, {"output"}};
  const Modules four = {{"tok_embeddings"}, {"layers.0", "layers.1"}, {"norm"}, {"output"}};
  for (const auto& args : {models::tiny_llama3(), models::tiny_qwen3()}) {
    for (const auto& modules : {two, four}) {
      for (const comm::MeshShape& shape :
           {comm::MeshShape{.pp = 2, .dp_shard = 2}, comm::MeshShape{.pp = 2, .tp = 2}}) {
        for (const auto reshard : {Reshard::kDefault, Reshard::kAlways}) {
          LayoutCase c = mix_case(shape);
          c.args = with_layers(args, 2);
          c.steps = 3;
          c.reshard = reshard;
          c.modules = modules;
          c.schedule = modules.size() == 2 ? "1F1B" : "InterleavedZeroBubble";
          expect_equal(c, fmt::format("{} stages of {}, {}", modules.size(), args.family,
                                      comm::describe(shape)));
        }
      }
    }
  }
}

TEST(LayoutPipelines, TiedWeightsOfStagesThatNoGroupJoinsAreRefused) {
  // The last stage is in the middle.
  const std::string file = testing::TempDir() + "tied_middle.csv";
  std::ofstream(file) << "0F0,0B0\n2F0,2B0\n1F0,1B0\n";
  config::Parallelism parallelism;
  parallelism.pipeline_parallel_degree = 3;
  parallelism.pipeline_parallel_schedule = "PipelineScheduleSingle";
  parallelism.pipeline_parallel_schedule_csv = file;
  EXPECT_NE(make_pipeline(parallelism, models::tiny_llama3(), 1), nullptr);
  EXPECT_THAT([&] { make_pipeline(parallelism, models::tiny_qwen3(), 1); },
              testing::ThrowsMessage<Error>(
                  testing::HasSubstr("on rank 0 and the last on rank 1, but the model's")));
}

// Where the last message between stages and the first reduction of gradients stand.
void expect_early_reductions(const comm::MeshShape& shape, const char* schedule, const char* axis,
                             const char* reduction) {
  LayoutCase c = mix_case(shape);
  c.args.num_layers = 4;
  c.steps = 1;
  c.schedule = schedule;
  Events events;
  c.decorate = watched(events);
  expect_equal(c, schedule);
  ASSERT_EQ(events.of_rank.size(), static_cast<size_t>(shape.world()));
  std::map<int64_t, std::vector<Events::Event>> of_stage_rank;
  for (const auto& [rank, list] : events.of_rank) {
    int64_t first = -1, last_message = -1, reductions = 0;
    std::vector<Events::Event> on_axis;
    for (size_t i = 0; i < list.size(); ++i) {
      const auto& [where, what] = list[i];
      if (where == "pp" || where == "pp_back") last_message = static_cast<int64_t>(i);
      if (where != axis) continue;
      on_axis.push_back(list[i]);
      if (what != reduction) continue;
      ++reductions;
      if (first < 0) first = static_cast<int64_t>(i);
    }
    ASSERT_GE(first, 0);
    EXPECT_LT(first, last_message) << schedule << " " << axis << ", rank " << rank;
    const int64_t pp_rank = rank / (shape.world() / shape.pp);
    // Once a step for each group, whatever the number of micro-batches: four layers, the embedding,
    // and norm with the copy of the embedding, on two ranks.
    EXPECT_EQ(reductions, 3) << "rank " << rank;
    // The ranks of a group call in one order.
    auto& same = of_stage_rank[pp_rank];
    if (same.empty()) same = on_axis;
    EXPECT_EQ(on_axis, same) << "rank " << rank;
  }
}

TEST(LayoutPipelines, AStageReducesWhileOthersStillCompute) {
  for (const char* schedule : {"Interleaved1F1B", "LoopedBFS"}) {
    expect_early_reductions({.pp = 2, .dp_shard = 2}, schedule, "fsdp", "reduce-scatter");
    expect_early_reductions({.pp = 2, .dp_replicate = 2}, schedule, "dp_replicate", "all-reduce");
  }
}

}  // namespace
}  // namespace titan::train
