// Every pair of axes and the larger mixes equal one process, in three precisions.
#include "train/broken_backend.h"
#include "train/layout_cases.h"

namespace titan::train {
namespace {

TEST(LayoutMixes, EveryPairOfAxesEqualsOneProcess) {
  for (const auto& shape : pairs()) expect_equal(mix_case(shape), comm::describe(shape));
}

TEST(LayoutMixes, LargerMixesEqualOneProcess) {
  for (const auto& shape : larger_mixes()) expect_equal(mix_case(shape), comm::describe(shape));
}

TEST(LayoutMixes, DeferredWeightGradientsMixWithEveryAxis) {
  for (const auto& shape : all_mixes()) {
    if (shape.pp == 1 || shape.world() > 8) continue;
    LayoutCase c = mix_case(shape);
    c.args.num_layers = 4;
    c.steps = 3;
    c.schedule = shape.tp > 1 ? "ZBVZeroBubble" : "InterleavedZeroBubble";
    expect_equal(c, comm::describe(shape));
  }
}

TEST(LayoutMixes, SinglePrecisionKeepsTheLoss) {
  for (const auto& shape : all_mixes()) {
    LayoutCase c = mix_case(shape);
    c.parameter_dtype = c.compute_dtype = at::kFloat;
    expect_equal(c, comm::describe(shape));
  }
}

// The band of bfloat16 compute with float32 masters (docs/parallelism.md): a layout rounds in other
// places than one process, so it is another run, but not a worse one. Its distance from float32 is
// at most kBand times that of one process in bfloat16.
constexpr double kBand = 1.5;

struct Distance {
  double loss, norm;
};

Distance from_single(const LayoutRun& run, const LayoutCase& c) {
  LayoutCase single = c;
  single.compute_dtype = at::kFloat;
  const auto d = difference(run, reference_of(single));
  return {d.loss, d.norm};
}

LayoutCase bfloat16_case(const comm::MeshShape& shape) {
  LayoutCase c = mix_case(shape);
  c.parameter_dtype = at::kFloat;
  c.compute_dtype = at::kBFloat16;
  return c;
}

TEST(LayoutMixes, Bfloat16StaysInItsBand) {
  auto shapes = all_mixes();
  for (const comm::MeshShape& shape : {comm::MeshShape{.dp_shard = 4}, comm::MeshShape{.tp = 4},
                                       comm::MeshShape{.cp = 2}, comm::MeshShape{.pp = 2}}) {
    shapes.push_back(shape);
  }
  for (const auto& shape : shapes) {
    const LayoutCase c = bfloat16_case(shape);
    const Distance one = from_single(reference_of(c), c), layout = from_single(run_layout(c), c);
    EXPECT_GT(one.loss, 1e-5);
    EXPECT_LE(layout.loss, kBand * one.loss) << comm::describe(shape);
    EXPECT_LE(layout.norm, kBand * one.norm) << comm::describe(shape);
  }
}

TEST(LayoutMixes, AWrongDivisorLeavesTheBandOfBfloat16) {
  LayoutCase c = bfloat16_case({.dp_shard = 2, .tp = 2});
  const Distance one = from_single(reference_of(c), c);
  const Mutation wrong{"wrong divisor", "fsdp", "reduce-scatter", Mistake::kHalved};
  c.decorate = broken(wrong);
  EXPECT_GT(from_single(run_layout(c), c).norm, kBand * one.norm);
  EXPECT_GT(wrong.met->load(), 0);
}

}  // namespace
}  // namespace titan::train
