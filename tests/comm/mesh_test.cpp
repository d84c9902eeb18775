#include "comm/mesh.h"

#include <gmock/gmock.h>

#include <map>

#include "comm/thread_world.h"

namespace titan::comm {
namespace {

TEST(Mesh, CoordinatesAndRanksAreInverse) {
  const MeshShape shape{.pp = 2, .dp_replicate = 3, .dp_shard = 2, .cp = 2, .tp = 4};
  for (int64_t rank = 0; rank < shape.world(); ++rank) {
    EXPECT_EQ(rank_at(shape, coordinates_of(shape, rank)), rank);
  }
  EXPECT_EQ(coordinates_of(shape, 1).tp, 1);                  // tp is innermost
  EXPECT_EQ(coordinates_of(shape, shape.world() / 2).pp, 1);  // pp outermost
  EXPECT_EQ(describe(shape), "pp 2 x dp_replicate 3 x dp_shard 2 x cp 2 x tp 4");
  EXPECT_EQ(describe({}), "1 process");
}

TEST(Mesh, EveryGroupHoldsTheRanksOfItsAxis) {
  const MeshShape shape{.pp = 2, .dp_replicate = 2, .dp_shard = 2, .cp = 2, .tp = 2};
  const ThreadWorld world(shape.world());
  world.run([&](int64_t rank) {
    const auto context = std::make_shared<RankContext>();
    const auto maker = world.maker(rank, context);
    const Mesh mesh = make_mesh(shape, rank, maker, maker, context);
    const auto members = [&](const Group& group) {
      const at::Tensor all = group.all_gather(at::tensor({rank}, at::kLong), 0);
      return std::vector<int64_t>(all.const_data_ptr<int64_t>(),
                                  all.const_data_ptr<int64_t>() + all.numel());
    };
    // Members differ from this rank in the one coordinate only.
    const auto differ_in = [&](const Group& group, int64_t Coordinates::*axis) {
      const auto ranks = members(group);
      for (const int64_t other : ranks) {
        Coordinates expected = mesh.at;
        expected.*axis = coordinates_of(shape, other).*axis;
        EXPECT_EQ(rank_at(shape, expected), other);
      }
      EXPECT_EQ(ranks[static_cast<size_t>(group.rank())], rank);
    };
    differ_in(mesh.pp, &Coordinates::pp);
    differ_in(mesh.pp_back, &Coordinates::pp);
    differ_in(mesh.dp_replicate, &Coordinates::dp_replicate);
    differ_in(mesh.cp, &Coordinates::cp);
    differ_in(mesh.tp, &Coordinates::tp);
    EXPECT_EQ(mesh.fsdp.size(), 4);
    EXPECT_EQ(mesh.fsdp.rank(), mesh.at.dp_shard * 2 + mesh.at.cp);
    EXPECT_EQ(mesh.all.size(), 32);
    EXPECT_EQ(mesh.world.size(), 32);
    EXPECT_EQ(mesh.ends.size(), 2);
  });
}

TEST(Mesh, AxesOfDegreeOneMakeNoGroup) {
  const ThreadWorld world(2);
  world.run([&](int64_t rank) {
    const auto context = std::make_shared<RankContext>();
    const auto maker = world.maker(rank, context);
    const Mesh mesh = make_mesh({.tp = 2}, rank, maker, maker, context);
    for (const Group* group : {&mesh.pp, &mesh.dp_replicate, &mesh.fsdp, &mesh.cp, &mesh.ends}) {
      EXPECT_TRUE(group->is_identity());
    }
    EXPECT_EQ(data_rank(mesh.shape, rank), 0);
    EXPECT_EQ(mesh.is_data_leader(), rank == 0);
  });
}

}  // namespace
}  // namespace titan::comm
