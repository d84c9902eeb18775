#include "ops/swiglu.h"

#include "ops/checks.h"

namespace titan::ops {
namespace {

at::Tensor swiglu_fused(const Inputs& in) { return swiglu(in[0], in[1]); }
at::Tensor swiglu_plain(const Inputs& in) { return reference::swiglu(in[0], in[1]); }

TEST(SwiGlu, MatchesReferenceInEveryDtypeAndOddShapes) {
  for (const auto& [dtype, tolerance] : precisions()) {
    for (const auto& shape :
         std::vector<std::vector<int64_t>>{{1}, {3}, {17}, {2, 17}, {3, 1, 5}, {40, 1000}}) {
      const auto gate = seeded(shape, dtype, 1), up = seeded(shape, dtype, 2);
      SCOPED_TRACE(testing::Message() << dtype << " " << at::IntArrayRef(shape));
      expect_close(run(swiglu_fused, {gate, up}), run(swiglu_plain, {gate, up}), tolerance,
                   "swiglu");
      expect_close(run(swiglu_fused, {strided(gate), up}), run(swiglu_plain, {gate, up}), tolerance,
                   "strided");
    }
  }
}

TEST(SwiGlu, HasTrueGradients) {
  expect_true_gradients(swiglu_fused,
                        {seeded({3, 4}, at::kDouble), seeded({3, 4}, at::kDouble, 2)});
}

TEST(SwiGlu, FollowsTheReferenceOverTheWholeRange) {
  // Each value on its own: float32 of the CPU kernel against float64.
  const auto gate =
      at::cat({at::linspace(-100, 100, 20001), at::tensor({-1e4f, 1e4f, 1e30f, 0.0f, -0.0f})});
  const auto up = at::ones_like(gate);
  const auto got = run(swiglu_fused, {gate, up});
  const auto want = run(swiglu_plain, {gate.to(at::kDouble), up.to(at::kDouble)});
  const auto off = [](const at::Tensor& a, const at::Tensor& b) {
    return ((a.to(at::kDouble) - b).abs() / b.abs().clamp_min(1e-25)).max().item<double>();
  };
  EXPECT_LE(off(got.output, want.output), 1e-6);
  EXPECT_LE(std::abs(swiglu(at::full({1}, -1e30f), at::ones({1})).item<double>()),
            1e-8);  // vanishes, if not wholly
  const auto weights = seeded(gate.sizes(), at::kFloat, 99).to(at::kDouble);
  // Near -1.28 the slope crosses zero: compare absolutely against its size of about 1.
  EXPECT_LE((got.gradients[0].to(at::kDouble) - want.gradients[0]).abs().max().item<double>(),
            1e-5 * weights.abs().max().item<double>());
  EXPECT_LE(distance(got.gradients[1], want.gradients[1]), 1e-6);
}

TEST(SwiGlu, NanStaysInItsElement) {
  auto gate = seeded({7}), up = seeded({7}, at::kFloat, 2);
  gate[1] = NAN;
  up[4] = NAN;
  EXPECT_TRUE(at::equal(swiglu(gate, up).isnan(), at::tensor({0, 1, 0, 0, 1, 0, 0}).to(at::kBool)));
}

TEST(SwiGlu, RefusesDifferentShapes) { EXPECT_ANY_THROW(swiglu(seeded({3, 4}), seeded({3, 3}))); }

}  // namespace
}  // namespace titan::ops
