#include "comm/placement.h"

#include <gtest/gtest.h>

namespace titan::comm {
namespace {

TEST(Placement, PartsCoverTheWholeOnceInOrder) {
  for (int64_t size = 0; size <= 40; ++size) {
    for (int64_t parts = 1; parts <= 9; ++parts) {
      int64_t balanced = 0, chunks = 0;
      for (int64_t i = 0; i < parts; ++i) {
        const Range a = balanced_part(size, parts, i), b = chunk(size, parts, i);
        EXPECT_EQ(a.begin, balanced);
        EXPECT_EQ(b.begin, chunks);
        EXPECT_GE(a.count, size / parts);
        EXPECT_LE(a.count, size / parts + 1);
        EXPECT_LE(b.count, (size + parts - 1) / parts);
        balanced = a.end();
        chunks = b.end();
      }
      EXPECT_EQ(balanced, size);
      EXPECT_EQ(chunks, size);
    }
  }
}

TEST(Placement, CutsOfCutsAreBoxesOfTheWhole) {
  const at::Tensor whole = at::arange(6 * 5, at::kLong).view({6, 5});
  const Box half = Box::whole({6, 5}).cut(1, {2, 3});
  const Box quarter = half.cut(0, {4, 2});
  EXPECT_TRUE(at::equal(quarter.of(whole), whole.narrow(0, 4, 2).narrow(1, 2, 3)));
  EXPECT_EQ(quarter.numel(), 6);
  EXPECT_EQ(quarter.cut(1, {1, 0}).numel(), 0);
  EXPECT_EQ(intersection({0, 4}, {2, 5}), (Range{2, 2}));
  EXPECT_EQ(intersection({0, 2}, {4, 5}).count, 0);
}

}  // namespace
}  // namespace titan::comm
