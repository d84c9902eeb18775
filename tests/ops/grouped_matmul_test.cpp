#include "ops/grouped_matmul.h"

#include "ops/mixture.h"

namespace titan::ops {
namespace {

using at::Tensor;

Function product(const Tensor& ends) {
  return [=](const Inputs& in) { return grouped_matmul(in[0], in[1], ends); };
}
Function plain(const Tensor& ends) {
  return [=](const Inputs& in) { return reference::grouped_matmul(in[0], in[1], ends); };
}

TEST(GroupedMatmul, MatchesReferenceInEveryDtype) {
  const std::vector<std::vector<int64_t>> cases = {{3, 0, 5, 1}, {0, 0, 7},       {7, 0, 0},
                                                   {4},          {1, 1, 1, 1, 1}, {0, 0}};
  auto dtypes = precisions();
  dtypes.push_back({at::kHalf, 2e-3});
  for (const auto& [dtype, tolerance] : dtypes) {
    for (const auto& counts : cases) {
      const Tensor ends = ends_of(counts);
      const auto experts = static_cast<int64_t>(counts.size());
      const Tensor x = seeded({ends[-1].item<int64_t>(), 6}, dtype),
                   w = seeded({experts, 4, 6}, dtype, 2);
      SCOPED_TRACE(testing::Message() << dtype << " " << at::IntArrayRef(counts));
      const Result expected = run(plain(ends), {x, w});
      expect_close(run(product(ends), {x, w}), expected, tolerance, "grouped_matmul");
      const Tensor turned = w.transpose(1, 2).contiguous().transpose(1, 2);
      expect_close(run(product(ends), {strided(x), turned}), expected, tolerance, "strided");
    }
  }
}

TEST(GroupedMatmul, HasTrueGradients) {
  expect_true_gradients(product(ends_of({2, 0, 3})),
                        {seeded({5, 3}, at::kDouble), seeded({3, 2, 3}, at::kDouble, 2)});
}

TEST(GroupedMatmul, AnExpertWithoutRowsHasNoGradient) {
  const auto gradients = run(product(ends_of({2, 0, 3})), {seeded({5, 3}), seeded({3, 2, 3})});
  EXPECT_EQ(gradients.gradients[1][1].abs().max().item<double>(), 0);
  EXPECT_GT(gradients.gradients[1][2].abs().max().item<double>(), 0);
}

TEST(GroupedMatmul, OnlyWhatIsAskedForIsComputed) {
  Tensor x = seeded({5, 3}).requires_grad_(), w = seeded({2, 2, 3});
  grouped_matmul(x, w, ends_of({2, 3})).sum().backward();
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(w.grad().defined());
}

TEST(GroupedMatmul, RefusesWhatDoesNotFit) {
  const Tensor x = seeded({5, 3}), w = seeded({2, 2, 3});
  EXPECT_ANY_THROW(grouped_matmul(x, w, ends_of({2, 2})));                // a row of no expert
  EXPECT_ANY_THROW(grouped_matmul(x, w, at::tensor({6, 5}, at::kLong)));  // falling
  EXPECT_ANY_THROW(grouped_matmul(x, w, ends_of({2, 2, 1})));
  EXPECT_ANY_THROW(grouped_matmul(x, w, ends_of({2, 3}).to(at::kInt)));
  EXPECT_ANY_THROW(grouped_matmul(x, w.to(at::kDouble), ends_of({2, 3})));
  EXPECT_ANY_THROW(grouped_matmul(x, seeded({2, 3, 2}), ends_of({2, 3})));
}

}  // namespace
}  // namespace titan::ops
