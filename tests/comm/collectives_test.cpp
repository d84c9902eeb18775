// Collectives between ranks as threads: values, gradients, counted bytes, and what a failing rank
// does to the others.
#include "comm/collectives.h"

#include <gmock/gmock.h>

#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "comm/thread_world.h"

namespace titan::comm {
namespace {

using at::Tensor;

// Runs body(group, context) on every rank of a world of `size`.
void on_ranks(int64_t size, const std::function<void(const Group&, RankContext&)>& body) {
  const ThreadWorld world(size);
  world.run([&](int64_t rank) {
    const auto context = std::make_shared<RankContext>();
    context->rank = rank;
    std::vector<int64_t> ranks(static_cast<size_t>(size));
    for (int64_t r = 0; r < size; ++r) ranks[static_cast<size_t>(r)] = r;
    body(world.maker(rank, context)("axis", "axis/0", ranks), *context);
  });
}

// A tensor that differs on every rank.
Tensor own(const Group& group, at::IntArrayRef shape) {
  return at::arange(c10::multiply_integers(shape), at::kDouble).view(shape) +
         100.0 * static_cast<double>(group.rank());
}

TEST(Collectives, GatherAndReduceScatterAreEachOthersGradient) {
  for (const int64_t size : {2, 3, 4}) {
    for (const int64_t dim : {0, 1, 2}) {
      on_ranks(size, [&](const Group& group, RankContext&) {
        Tensor x = own(group, {2, 3, 4}).requires_grad_();
        const Tensor all = gather(x, group, dim);
        EXPECT_EQ(all.size(dim), x.size(dim) * size);
        EXPECT_TRUE(at::equal(all.narrow(dim, group.rank() * x.size(dim), x.size(dim)), x));
        // Every rank weighs the gathered tensor by its number + 1: the sum arrives.
        torch::autograd::backward({(all * static_cast<double>(group.rank() + 1)).sum()}, {});
        EXPECT_TRUE(at::equal(x.grad(), at::full_like(x, size * (size + 1) / 2)));

        Tensor y = own(group, {size * 2, size * 3, size}).requires_grad_();
        const Tensor part = reduce_scatter(y, group, dim);
        const Tensor sum = group.all_reduce(y.detach());
        const int64_t rows = y.size(dim) / size;
        EXPECT_TRUE(at::equal(part, sum.narrow(dim, group.rank() * rows, rows)));
        torch::autograd::backward({(part * static_cast<double>(group.rank() + 1)).sum()}, {});
        for (int64_t r = 0; r < size; ++r) {
          EXPECT_TRUE(
              at::equal(y.grad().narrow(dim, r * rows, rows), at::full_like(part, r + 1.0)));
        }
      });
    }
  }
}

TEST(Collectives, ReduceAndReplicateAreEachOthersGradient) {
  on_ranks(3, [](const Group& group, RankContext&) {
    Tensor x = own(group, {4}).requires_grad_();
    const Tensor sum = reduce(x, group);
    EXPECT_TRUE(at::equal(sum, at::arange(4, at::kDouble) * 3 + 300));
    torch::autograd::backward({(sum * 2).sum()}, {});
    EXPECT_TRUE(at::equal(x.grad(), at::full_like(x, 2)));
    Tensor y = at::ones({4}, at::kDouble).requires_grad_();
    torch::autograd::backward({(replicate(y, group) * static_cast<double>(group.rank() + 1)).sum()},
                              {});
    EXPECT_TRUE(at::equal(y.grad(), at::full_like(y, 6)));
  });
}

TEST(Collectives, AllToAllAndBackIsTheIdentity) {
  on_ranks(4, [](const Group& group, RankContext&) {
    Tensor x = own(group, {2, 8, 3}).requires_grad_();
    const Tensor there = all_to_all(x, group, 1, 2);
    EXPECT_EQ(there.sizes(), at::IntArrayRef({2, 2, 12}));
    const Tensor back = all_to_all(there, group, 2, 1);
    EXPECT_TRUE(at::equal(back, x));
    torch::autograd::backward({(back * back).sum()}, {});
    EXPECT_TRUE(at::equal(x.grad(), 2 * x.detach()));
  });
}

TEST(Collectives, AnIncomingGradientIsNeverChanged) {
  on_ranks(2, [](const Group& group, RankContext&) {
    Tensor x = own(group, {4}).requires_grad_();
    const Tensor a = replicate(x, group);
    const Tensor gradient = at::ones({4}, at::kDouble);
    torch::autograd::backward({a}, {gradient});
    EXPECT_TRUE(at::equal(gradient, at::ones({4}, at::kDouble)));
    EXPECT_TRUE(at::equal(x.grad(), at::full({4}, 2.0, at::kDouble)));
  });
}

TEST(Collectives, MessagesWithOneTagArriveInOrder) {
  on_ranks(2, [](const Group& group, RankContext&) {
    std::vector<Pending> sent;
    const int64_t other = 1 - group.rank();
    for (int i = 0; i < 20; ++i) {
      sent.push_back(group.start_send(at::full({3}, static_cast<double>(i)), other, 5));
    }
    for (int i = 0; i < 20; ++i) {
      Tensor message = at::empty({3});
      group.start_receive(message, other, 5).wait();
      EXPECT_EQ(message[0].item<double>(), i);
    }
    for (auto& pending : sent) pending.wait();
  });
}

TEST(Collectives, TextsOfAllRanksArrive) {
  on_ranks(3, [](const Group& group, RankContext&) {
    const std::string mine(static_cast<size_t>(group.rank() * 5), 'a');
    EXPECT_THAT(gather_text(mine, group), testing::ElementsAre("", "aaaaa", "aaaaaaaaaa"));
  });
}

TEST(Collectives, BytesAreCountedAsARingSendsThem) {
  on_ranks(4, [](const Group& group, RankContext& context) {
    const Tensor x = at::zeros({8}, at::kDouble);  // 64 bytes
    group.all_reduce(x);
    group.all_gather(x, 0);
    group.reduce_scatter(x, 0);
    const auto sums = context.traffic.sums();
    EXPECT_EQ(sums.at({"axis", "all-reduce"}).bytes, 2 * 3 * 64 / 4);
    EXPECT_EQ(sums.at({"axis", "all-gather"}).bytes, 3 * 64);
    EXPECT_EQ(sums.at({"axis", "reduce-scatter"}).bytes, 3 * 64 / 4);
    EXPECT_EQ(sums.at({"axis", "all-reduce"}).calls, 1);
  });
}

TEST(Collectives, AGroupOfOneCallsNothing) {
  const Group one;
  const Tensor x = at::ones({3});
  EXPECT_TRUE(one.is_identity());
  EXPECT_TRUE(one.all_reduce(x).is_same(x));
  EXPECT_TRUE(gather(x, one, 0).is_same(x));
  EXPECT_THAT(gather_text("x", one), testing::ElementsAre("x"));
}

TEST(Collectives, AFailingRankFreesTheOthersWithItsMessage) {
  try {
    on_ranks(4, [](const Group& group, RankContext&) {
      if (group.rank() == 2) throw Error("[test] rank 2 has had enough");
      group.barrier();
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[test] rank 2 has had enough");
  }
}

TEST(Collectives, OtherShapesAreNamedWithRankAxisAndPhase) {
  try {
    on_ranks(2, [](const Group& group, RankContext& context) {
      context.progress.step = 7;
      context.progress.phase = "backward";
      group.all_reduce(at::zeros({3 + group.rank()}));
    });
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("elements"));
  }
}

}  // namespace
}  // namespace titan::comm
