// What the comparison of a layout with one process must not miss: for every layout, each mistake
// that its collectives allow.
#include "train/broken_backend.h"
#include "train/layout_cases.h"

namespace titan::train {
namespace {

std::vector<Mutation> mutations_of(const comm::MeshShape& shape) {
  std::vector<Mutation> list = {{"norm and loss not summed", "all", "all-reduce"}};
  const auto add = [&](std::vector<Mutation> more) {
    list.insert(list.end(), more.begin(), more.end());
  };
  if (shape.fsdp() > 1) {
    add({{"gradients not summed over shards", "fsdp", "reduce-scatter"},
         {"wrong divisor over shards", "fsdp", "reduce-scatter", Mistake::kHalved},
         {"parameters not gathered", "fsdp", "all-gather"}});
  }
  if (shape.dp_replicate > 1) {
    add({{"gradients not summed over replicas", "dp_replicate", "all-reduce"},
         {"wrong divisor over replicas", "dp_replicate", "all-reduce", Mistake::kHalved}});
  }
  if (shape.tp > 1) {
    add({{"products not summed", "tp", "reduce-scatter"},
         {"wrong divisor of products", "tp", "reduce-scatter", Mistake::kHalved},
         {"gradients of norms not summed", "tp", "all-reduce", Mistake::kDropped,
          "gradient reduction"}});
  }
  if (shape.cp > 1) {
    add({{"gradients of keys and values not summed", "cp", "reduce-scatter"},
         {"wrong divisor of keys and values", "cp", "reduce-scatter", Mistake::kHalved},
         {"keys and values not gathered", "cp", "all-gather"}});
  }
  if (shape.pp > 1) {
    const int64_t last_stage = shape.world() - shape.world() / shape.pp;
    add({{"a stage missed in the norm", "all", "all-reduce", Mistake::kSilenced, "", last_stage},
         {"tied gradients not summed", "pp_ends", "all-reduce"},
         {"wrong divisor between stages", "pp_back", "receive", Mistake::kHalved}});
  }
  return list;
}

double worst_of(const LayoutDifference& d) {
  return std::max({d.loss, d.norm, d.gradient, d.parameter});
}

TEST(LayoutMutations, EveryMistakeOfEveryLayoutIsSeen) {
  std::vector<comm::MeshShape> shapes = {
      {.dp_replicate = 2}, {.dp_shard = 2}, {.cp = 2}, {.tp = 2}, {.pp = 2}};
  for (const auto& mix : all_mixes()) shapes.push_back(mix);
  for (const auto& shape : shapes) {
    LayoutCase c = mix_case(shape);
    c.steps = 2;
    EXPECT_LE(worst_of(difference(run_layout(c), reference_of(c))), kDouble)
        << comm::describe(shape);
    for (const Mutation& mutation : mutations_of(shape)) {
      c.decorate = broken(mutation);
      const auto d = difference(run_layout(c), reference_of(c));
      EXPECT_GT(worst_of(d), 1e6 * kDouble) << comm::describe(shape) << ": " << mutation.name;
      EXPECT_GT(mutation.met->load(), 0) << comm::describe(shape) << ": " << mutation.name;
    }
  }
}

// One rank's share is enough.
TEST(LayoutMutations, AStageThatAnswersForNothingIsSeenInTheNormAlone) {
  LayoutCase c = mix_case({.pp = 2});
  c.steps = 1;
  c.decorate = broken({"", "all", "all-reduce", Mistake::kSilenced, "", 1});
  const auto d = difference(run_layout(c), reference_of(c));
  EXPECT_LE(d.gradient, kDouble);
  EXPECT_LE(d.loss, kDouble);
  EXPECT_GT(d.norm, 1e6 * kDouble);
}

}  // namespace
}  // namespace titan::train
