#include "ops/rms_norm.h"

#include <ATen/Parallel.h>

#include "ops/checks.h"

namespace titan::ops {
namespace {

constexpr double kRmsEps = 1e-5;

Result rms_fused(const at::Tensor& x, const at::Tensor& w) {
  return run([](const Inputs& in) { return rms_norm(in[0], in[1], kRmsEps); }, {x, w});
}

Result rms_plain(const at::Tensor& x, const at::Tensor& w) {
  return run([](const Inputs& in) { return reference::rms_norm(in[0], in[1], kRmsEps); }, {x, w});
}

TEST(RmsNorm, MatchesReferenceInEveryDtypeAndOddShapes) {
  for (const auto& [dtype, tolerance] : precisions()) {
    for (const int64_t dim : {1, 3, 17, 64, 1000}) {
      for (const auto& shape : std::vector<std::vector<int64_t>>{
               {dim}, {1, dim}, {7, dim}, {2, 3, dim}, {2, 5, 3, dim}}) {
        const auto x = seeded(shape, dtype, 3);
        const auto w = seeded({dim}, dtype, 4);
        SCOPED_TRACE(testing::Message() << dtype << " " << at::IntArrayRef(shape));
        // With one element per row the gradient of x is a difference of equals: of the size of eps.
        const auto got = rms_fused(x, w), want = rms_plain(x, w);
        EXPECT_LE(distance(got.output, want.output), tolerance);
        EXPECT_LE(distance(got.gradients[1], want.gradients[1]), tolerance);
        if (dim > 1) {
          EXPECT_LE(distance(got.gradients[0], want.gradients[0]), tolerance);
        } else {
          EXPECT_LE((got.gradients[0] - want.gradients[0]).abs().max().item<double>(),
                    tolerance * 20);
        }
      }
    }
  }
}

TEST(RmsNorm, TakesStridedInputs) {
  const auto x = seeded({4, 6, 17}), w = seeded({17});
  expect_close(rms_fused(strided(x), strided(w)), rms_plain(x, w), 2e-6, "strided");
}

TEST(RmsNorm, HasTrueGradients) {
  expect_true_gradients([](const Inputs& in) { return rms_norm(in[0], in[1], kRmsEps); },
                        {seeded({3, 5}, at::kDouble), seeded({5}, at::kDouble, 2)});
}

TEST(RmsNorm, StaysFiniteForZeroTinyAndHugeRows) {
  for (const double size : {0.0, 1e-30, 1e-18, 1e15}) {
    const auto result = rms_fused(seeded({3, 16}) * size, at::ones({16}));
    EXPECT_TRUE(result.output.isfinite().all().item<bool>()) << size;
    EXPECT_TRUE(result.gradients[0].isfinite().all().item<bool>()) << size;
  }
}

TEST(RmsNorm, NanStaysInItsRow) {
  auto x = seeded({4, 8});
  x[2][5] = NAN;
  const auto y = rms_norm(x, at::ones({8}), kRmsEps);
  for (int64_t row = 0; row < 4; ++row) {
    EXPECT_EQ(y[row].isnan().all().item<bool>(), row == 2);
    EXPECT_EQ(y[row].isnan().any().item<bool>(), row == 2);
  }
}

TEST(RmsNorm, WeightGradientDoesNotDependOnThreads) {
  const auto x = seeded({300, 33}), w = seeded({33});
  at::set_num_threads(1);
  const auto one = rms_fused(x, w);
  at::set_num_threads(4);
  const auto four = rms_fused(x, w);
  at::set_num_threads(1);
  EXPECT_TRUE(at::equal(one.gradients[1], four.gradients[1]));
  EXPECT_TRUE(at::equal(one.gradients[0], four.gradients[0]));
}

}  // namespace
}  // namespace titan::ops
