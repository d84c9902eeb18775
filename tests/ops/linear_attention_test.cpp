#include <cmath>

#include "ops/attention.h"
#include "ops/checks.h"
#include "ops/linear.h"

namespace titan::ops {
namespace {

TEST(Linear, MatchesTheMatrixProductInEveryDtypeAndOddShapes) {
  for (const auto& [dtype, tolerance] : precisions()) {
    for (const auto& [in, out] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 17}, {17, 3}, {64, 1}}) {
      const auto x = seeded({2, 5, in}, dtype, 1), w = seeded({out, in}, dtype, 2);
      const auto f = [](const Inputs& i) { return ops::linear(i[0], i[1]); };
      const auto g = [](const Inputs& i) { return at::matmul(i[0], i[1].t()); };
      SCOPED_TRACE(testing::Message() << dtype << " " << in << "x" << out);
      expect_close(run(f, {x, w}), run(g, {x, w}), tolerance, "linear");
      expect_close(run(f, {strided(x), strided(w)}), run(g, {x, w}), tolerance, "strided");
      expect_close(run(f, {x[0], w}), run(g, {x[0], w}), tolerance, "two dims");
    }
  }
}

TEST(Linear, HasTrueGradients) {
  expect_true_gradients([](const Inputs& in) { return ops::linear(in[0], in[1]); },
                        {seeded({2, 3, 4}, at::kDouble), seeded({5, 4}, at::kDouble, 2)});
}

TEST(Linear, GivesOnlyTheGradientsAskedFor) {
  auto x = seeded({3, 4}), w = seeded({5, 4}).set_requires_grad(true);
  ops::linear(x, w).sum().backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(w.grad().defined());
}

TEST(Attention, MatchesReferenceWithGroupedHeadsAndOddShapes) {
  for (const auto& [dtype, tolerance] :
       std::vector<Precision>{{at::kDouble, 1e-12}, {at::kFloat, 5e-6}, {at::kBFloat16, 3e-2}}) {
    for (const auto& [b, h, kv, t, d] : std::vector<std::array<int64_t, 5>>{{1, 1, 1, 1, 1},
                                                                            {2, 4, 2, 3, 8},
                                                                            {1, 6, 1, 17, 3},
                                                                            {2, 3, 3, 33, 16},
                                                                            {2, 4, 2, 70, 32},
                                                                            {1, 2, 1, 131, 48},
                                                                            {1, 2, 2, 25, 64},
                                                                            {1, 1, 1, 1, 16},
                                                                            {1, 2, 2, 600, 8}}) {
      const Inputs in = {seeded({b, h, t, d}, dtype, 1), seeded({b, kv, t, d}, dtype, 2),
                         seeded({b, kv, t, d}, dtype, 3)};
      const auto f = [](const Inputs& i) { return attention(i[0], i[1], i[2]); };
      const auto g = [](const Inputs& i) { return reference::attention(i[0], i[1], i[2]); };
      SCOPED_TRACE(testing::Message() << dtype << " " << in[0].sizes() << kv);
      const auto got = run(f, in), want = run(g, in);
      EXPECT_LE(distance(got.output, want.output), tolerance);
      EXPECT_LE(distance(got.gradients[2], want.gradients[2]), tolerance);
      if (t > 1) {  // alone, a token's scores have no effect
        EXPECT_LE(distance(got.gradients[0], want.gradients[0]), tolerance);
        EXPECT_LE(distance(got.gradients[1], want.gradients[1]), tolerance);
      }
      // As the model calls it: heads moved in front by a transpose.
      Inputs moved;
      for (const auto& x : in) moved.push_back(x.transpose(1, 2).contiguous().transpose(1, 2));
      EXPECT_LE(distance(run(f, moved).output, want.output), tolerance);
    }
  }
}

TEST(Attention, HasTrueGradients) {
  expect_true_gradients([](const Inputs& in) { return attention(in[0], in[1], in[2]); },
                        {seeded({1, 2, 3, 4}, at::kDouble), seeded({1, 1, 3, 4}, at::kDouble, 2),
                         seeded({1, 1, 3, 4}, at::kDouble, 3)});
}

TEST(Attention, SeesNothingOfTheFuture) {
  const auto q = seeded({1, 2, 9, 8}), k = seeded({1, 2, 9, 8}, at::kFloat, 2),
             v = seeded({1, 2, 9, 8}, at::kFloat, 3);
  const auto before = attention(q, k, v);
  for (const int64_t changed : {1, 4, 8}) {
    auto k2 = k.clone(), v2 = v.clone();
    k2.narrow(2, changed, 9 - changed).fill_(5);
    v2.narrow(2, changed, 9 - changed).fill_(7);
    const auto after = attention(q, k2, v2);
    EXPECT_LE(distance(after.narrow(2, 0, changed), before.narrow(2, 0, changed)), 1e-6);
    EXPECT_GT(distance(after.narrow(2, changed, 1), before.narrow(2, changed, 1)), 1e-3);
  }
}

TEST(Attention, OneQuerySeesAllKeysAndAMaskReplacesCausality) {
  const auto q = seeded({2, 4, 1, 8}), k = seeded({2, 2, 5, 8}, at::kFloat, 2),
             v = seeded({2, 2, 5, 8}, at::kFloat, 3);
  const auto all = at::ones({1, 1, 1, 5}, at::kBool);
  EXPECT_LE(distance(attention(q, k, v), reference::attention(q, k, v, all)), 2e-6);
  auto mask = at::ones({2, 1, 1, 5}, at::kBool);
  mask[1][0][0][0] = false;
  const auto got = attention(q, k, v, mask);
  EXPECT_LE(distance(got, reference::attention(q, k, v, mask)), 2e-6);
  EXPECT_GT(distance(got[1], attention(q, k, v)[1]), 1e-3);
}

TEST(Attention, HugeScoresPickOneKey) {
  const auto q = at::full({1, 1, 2, 4}, 100.0f), v = seeded({1, 1, 2, 4});
  auto k = at::full({1, 1, 2, 4}, -100.0f);
  k.narrow(2, 1, 1).fill_(100);
  const auto y = attention(q, k, v);
  EXPECT_TRUE(at::allclose(y, v));
}

}  // namespace
}  // namespace titan::ops
