#include "ops/stack_rows.h"

#include "ops/checks.h"

namespace titan::ops {
namespace {

using at::Tensor;

Tensor stacked(const Inputs& in) { return stack_rows(in); }

TEST(StackRows, NeighboursAreReadWhereTheyLie) {
  const Tensor all = seeded({9, 4});
  const std::vector<Tensor> parts{all.narrow(0, 2, 3), all.narrow(0, 5, 1), all.narrow(0, 6, 3)};
  const Tensor whole = stack_rows(parts);
  EXPECT_TRUE(at::equal(whole, all.narrow(0, 2, 7)));
  EXPECT_EQ(whole.data_ptr(), parts[0].data_ptr());
}

TEST(StackRows, OthersAreCopied) {
  const Tensor all = seeded({9, 4});
  const std::vector<std::vector<Tensor>> cases{
      {all.narrow(0, 5, 1), all.narrow(0, 2, 3)},                        // the wrong order
      {all.narrow(0, 0, 2), all.narrow(0, 3, 2)},                        // a gap
      {seeded({2, 4}), seeded({3, 4}, at::kFloat, 2)},                   // other memory
      {seeded({4, 2}).t(), seeded({4, 3}, at::kFloat, 2).t()}};          // columns
  for (const auto& parts : cases) EXPECT_TRUE(at::equal(stack_rows(parts), at::cat(parts)));
}

TEST(StackRows, GradientsGoToTheirParts) {
  expect_true_gradients(stacked, {seeded({2, 3}, at::kDouble), seeded({4, 3}, at::kDouble, 2)});
  const Tensor all = seeded({5, 3}, at::kDouble);
  Tensor a = all.narrow(0, 0, 2).detach().set_requires_grad(true),
         b = all.narrow(0, 2, 3).detach().set_requires_grad(true);
  const Tensor weight = seeded({5, 3}, at::kDouble, 9);
  (stack_rows({a, b}) * weight).sum().backward();
  EXPECT_TRUE(at::equal(a.grad(), weight.narrow(0, 0, 2)));
  EXPECT_TRUE(at::equal(b.grad(), weight.narrow(0, 2, 3)));
}

}  // namespace
}  // namespace titan::ops
