// Parameters, gradients and optimizer states in host memory, and updates inside the backward pass:
// the same run as without, and things lie where they shall.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "models/sharding.h"
#include "parallel/host_copies.h"
#include "parallel/parameter_group.h"
#include "support/tiny_args.h"
#include "train/broken_backend.h"
#include "train/layout_check.h"

namespace titan::train {
namespace {

models::ModelArgs small(bool tied) {
  auto args = models::tiny_qwen3();
  args.vocab_size = 41;
  args.tied = tied;
  return args;
}

constexpr double kEqual = 1e-11;
constexpr double kNoClip = 1e9;

const comm::MeshShape kShapes[] = {{},
                                   {.dp_shard = 2},
                                   {.dp_replicate = 2},
                                   {.dp_replicate = 2, .dp_shard = 2},
                                   {.dp_shard = 2, .tp = 2},
                                   {.cp = 2, .tp = 2}};

TEST(Offload, EqualsOneProcessInEveryLayout) {
  for (const auto& shape : kShapes) {
    for (const bool tied : {false, true}) {
      const LayoutCase c{.shape = shape,
                         .args = small(tied),
                         .accumulation = 2,
                         .steps = 5,
                         .offload = true,
                         .recompute = tied ? std::optional(ops::Kept::kNothing) : std::nullopt};
      const auto d = difference(run_layout(c), run_one_process(c));
      EXPECT_LE(d.loss, kEqual) << comm::describe(shape);
      EXPECT_LE(d.norm, kEqual) << comm::describe(shape);
      EXPECT_LE(d.gradient, kEqual) << comm::describe(shape) << ": " << d.worst_gradient;
      EXPECT_LE(d.parameter, kEqual) << comm::describe(shape) << ": " << d.worst_parameter;
    }
  }
}

TEST(Offload, AMistakeInItsReductionIsSeen) {
  LayoutCase c{.shape = {.dp_shard = 2}, .args = small(false), .steps = 2, .offload = true};
  const auto expected = run_one_process(c);
  for (const auto mistake : {Mistake::kHalved, Mistake::kDropped}) {
    const Mutation mutation{"", "fsdp", "reduce-scatter", mistake};
    c.decorate = broken(mutation);
    const auto d = difference(run_layout(c), expected);
    EXPECT_GT(std::max({d.norm, d.gradient, d.parameter}), 1e-6);
    EXPECT_GT(mutation.met->load(), 0);
  }
}

TEST(Offload, WorksWithPipelinesAndWithoutSharding) {
  for (const bool pipeline : {true, false}) {
    auto args = small(true);
    args.num_layers = 4;
    const LayoutCase c{.shape = {.pp = pipeline ? 2 : 1, .dp_shard = 2},
                       .args = args,
                       .steps = 4,
                       .reshard = pipeline ? Reshard::kDefault : Reshard::kNever,
                       .whole_gradients = !pipeline,
                       .offload = true};
    const auto d = difference(run_layout(c), run_one_process(c));
    EXPECT_LE(std::max({d.loss, d.norm, d.gradient, d.parameter}), kEqual) << d.worst_gradient;
  }
}

// Chunks cross to the device for each gather and their gradients come back once for each pass; a
// further pass fetches the sum of the earlier ones.
TEST(Offload, CopiesEachChunkForEachGatherAndEachGradientOnce) {
  const auto args = small(false);
  for (const int64_t passes : {1, 2}) {
    const auto run = run_layout({.shape = {.dp_shard = 2},
                                 .args = args,
                                 .accumulation = passes,
                                 .steps = 1,
                                 .offload = true});
    int64_t gradients = 0;
    for (const auto& [name, shape] : models::parameter_shapes(args)) {
      gradients += (shape[0] + 1) / 2 * (shape.size() > 1 ? shape[1] : 1) * 8;
    }
    EXPECT_EQ(run.traffic.at({"host", "copy to host"}).bytes, passes * gradients);
    EXPECT_EQ(run.traffic.at({"host", "copy to device"}).bytes,
              run.traffic.at({"fsdp", "all-gather"}).bytes + (passes - 1) * gradients);
  }
}

TEST(Offload, NothingButParametersInUseIsOnTheDevice) {
  const auto context = std::make_shared<comm::RankContext>();
  parallel::ShardOptions options;
  options.host = std::make_shared<parallel::HostCopies>(at::kCPU, context);
  const comm::Box whole = comm::Box::whole({4, 3});
  parallel::ParameterGroup group("g", {{"w", {4, 3}, whole, whole}}, options);
  {
    const at::NoGradGuard no_grad;
    at::Tensor(group.leaves()[0]).fill_(2);
  }
  group.start_gather();
  group.unshard();
  EXPECT_EQ(context->traffic.sums().at({"host", "copy to device"}).calls, 1);
  const at::Tensor parameter = group.parameters()[0];
  EXPECT_FALSE(parameter.is_alias_of(group.leaves()[0]));
  EXPECT_TRUE(at::equal(parameter, group.leaves()[0]));
  EXPECT_FALSE(group.is_master());
  group.reshard();
  EXPECT_TRUE(group.parameters().empty());
  const at::Tensor gradient = at::ones({4, 3});
  group.reduce({gradient}, false);
  group.reduce({gradient}, true);
  group.finish();
  const at::Tensor first = group.leaves()[0].grad();
  EXPECT_TRUE(at::equal(first, gradient * 2));
  group.reduce({gradient}, true);
  group.finish();
  EXPECT_TRUE(at::equal(group.leaves()[0].grad(), gradient));
  EXPECT_TRUE(group.leaves()[0].grad().is_alias_of(first)) << "one buffer for the life of a group";
}

TEST(EarlyStep, EqualsUpdatesAtTheEnd) {
  for (const auto& shape : kShapes) {
    for (const bool tied : {false, true}) {
      for (const auto reshard : {Reshard::kDefault, Reshard::kNever}) {
        const LayoutCase c{.shape = shape,
                           .args = small(tied),
                           .accumulation = 2,
                           .steps = 5,
                           .max_norm = kNoClip,
                           .reshard = reshard,
                           .offload = tied,
                           .early_step = true,
                           .recompute = tied ? std::nullopt : std::optional(ops::Kept::kExpensive)};
        const auto run = run_layout(c);
        EXPECT_TRUE(run.gradients.empty());
        const auto d = difference(run, run_one_process(c));
        EXPECT_LE(d.loss, kEqual) << comm::describe(shape);
        EXPECT_LE(d.norm, kEqual) << comm::describe(shape);
        EXPECT_LE(d.parameter, kEqual) << comm::describe(shape) << ": " << d.worst_parameter;
      }
    }
  }
}

TEST(EarlyStep, AMistakeInItsReductionIsSeen) {
  LayoutCase c{.shape = {.dp_shard = 2, .tp = 2},
               .args = small(false),
               .steps = 2,
               .max_norm = kNoClip,
               .early_step = true};
  const auto expected = run_one_process(c);
  for (const char* axis : {"fsdp", "tp"}) {
    const Mutation mutation{"", axis, axis == std::string("tp") ? "all-reduce" : "reduce-scatter",
                            Mistake::kHalved, "backward"};
    c.decorate = broken(mutation);
    EXPECT_GT(difference(run_layout(c), expected).parameter, 1e-6) << axis;
    EXPECT_GT(mutation.met->load(), 0) << axis;
  }
}

// It never waits for the norm: where clipping bites, the runs part.
TEST(EarlyStep, ClipsNothing) {
  const LayoutCase c{
      .shape = {.dp_shard = 2}, .args = small(false), .steps = 5, .early_step = true};
  LayoutCase clipped = c;
  clipped.max_norm = 1e-3;
  EXPECT_EQ(difference(run_layout(c), run_layout(clipped)).parameter, 0);
  EXPECT_GT(difference(run_layout(c), run_one_process(clipped)).parameter, 1e-6);
}

}  // namespace
}  // namespace titan::train
