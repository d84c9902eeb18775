#include "ops/stack_rows.h"

#include "ops/checks.h"

namespace titan::ops {
namespace {

using at::Tensor;

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
      {all.narrow(0, 5, 1), all.narrow(0, 2, 3)},                // the wrong order
      {all.narrow(0, 0, 2), all.narrow(0, 3, 2)},                // a gap
      {seeded({2, 4}), seeded({3, 4}, at::kFloat, 2)},           // other memory
      {seeded({4, 2}).t(), seeded({4, 3}, at::kFloat, 2).t()}};  // columns
  for (const auto& parts : cases) EXPECT_TRUE(at::equal(stack_rows(parts), at::cat(parts)));
}

TEST(GradientDtype, IsTheTensorsOwnUnlessTheGraphWantsAnother) {
  const Tensor plain = seeded({2}), leaf = seeded({2}).set_requires_grad(true);
  EXPECT_EQ(gradient_dtype(plain), at::kFloat);
  EXPECT_EQ(gradient_dtype(leaf), at::kFloat);
  const Tensor narrow = leaf.to(at::kBFloat16);
  EXPECT_EQ(gradient_dtype(narrow), at::kBFloat16);
}

}  // namespace
}  // namespace titan::ops
