#include "ops/rope.h"

#include "ops/checks.h"

namespace titan::ops {
namespace {

struct Tables {
  at::Tensor cos, sin;
};

Tables tables(at::IntArrayRef shape, at::ScalarType dtype) {
  const auto angles = seeded(shape, at::kDouble, 7) * 3;
  const auto wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
  return {angles.cos().to(wide), angles.sin().to(wide)};
}

TEST(Rope, MatchesReferenceInEveryDtypeAndOddShapes) {
  for (const auto& [dtype, tolerance] : precisions()) {
    for (const bool interleaved : {true, false}) {
      for (const auto& [b, t, h, d] : std::vector<std::array<int64_t, 4>>{
               {1, 1, 1, 2}, {2, 3, 1, 6}, {3, 17, 5, 34}, {1, 7, 3, 64}}) {
        for (const bool per_row : {false, true}) {
          const auto [cos, sin] =
              per_row ? tables({b, t, d / 2}, dtype) : tables({t, d / 2}, dtype);
          const auto x = seeded({b, t, h, d}, dtype);
          const auto f = [&](const Inputs& in) { return rope(in[0], cos, sin, interleaved); };
          const auto g = [&](const Inputs& in) {
            return reference::rope(in[0], cos, sin, interleaved);
          };
          SCOPED_TRACE(testing::Message() << dtype << " " << x.sizes() << interleaved << per_row);
          expect_close(run(f, {x}), run(g, {x}), tolerance, "rope");
          expect_close(run(f, {strided(x)}), run(g, {x}), tolerance, "strided");
        }
      }
    }
  }
}

TEST(Rope, HasTrueGradients) {
  const auto [cos, sin] = tables({3, 2}, at::kDouble);
  for (const bool interleaved : {true, false}) {
    expect_true_gradients([&](const Inputs& in) { return rope(in[0], cos, sin, interleaved); },
                          {seeded({2, 3, 2, 4}, at::kDouble)});
  }
}

TEST(Rope, TurnsAPairByItsAngle) {
  const auto x = at::tensor({1.0f, 0.0f, 0.0f, 2.0f}).view({1, 1, 1, 4});
  const auto cos = at::tensor({0.0f, 1.0f}).view({1, 2}),
             sin = at::tensor({1.0f, 0.0f}).view({1, 2});
  // (1, 0) by a quarter turn is (0, 1); the second pair stays.
  EXPECT_TRUE(at::equal(rope(x, cos, sin, true).flatten(), at::tensor({0.0f, 1.0f, 0.0f, 2.0f})));
  // Halves: the pairs are (1, 0) and (0, 2).
  EXPECT_TRUE(at::equal(rope(x, cos, sin, false).flatten(), at::tensor({0.0f, 0.0f, 1.0f, 2.0f})));
}

TEST(Rope, NanStaysInItsPair) {
  auto x = seeded({1, 1, 1, 6});
  x[0][0][0][2] = NAN;
  const auto [cos, sin] = tables({1, 3}, at::kFloat);
  const auto y = rope(x, cos, sin, true).flatten().isnan();
  EXPECT_TRUE(at::equal(y, at::tensor({0, 0, 1, 1, 0, 0}).to(at::kBool)));
}

TEST(Rope, RefusesTablesOfAnotherShape) {
  const auto x = seeded({2, 3, 1, 4});
  for (const auto& shape :
       std::vector<std::vector<int64_t>>{{2, 2}, {4, 2}, {3, 4}, {3, 1}, {3, 3, 2}}) {
    const auto table = at::ones(shape);
    EXPECT_ANY_THROW(rope(x, table, table, true)) << at::IntArrayRef(shape);
  }
}

}  // namespace
}  // namespace titan::ops
