// Ranks that bring other tensors than their peers to a Gloo collective, as real processes: every
// one ends with one error that names rank, step, phase, collective and axis.
#include "comm/shape_check.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

#include "base/error.h"
#include "comm/rendezvous.h"

namespace titan::comm {
namespace {

using at::Tensor;
using testing::AllOf;
using testing::HasSubstr;

int64_t free_port() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const bool ok = ::bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ::close(listener);
  return ok ? ntohs(address.sin_port) : 0;
}

// What a rank's process says: "ended" or its error.
std::string run_rank(int64_t rank, int64_t port, const std::function<void(const Group&)>& body) {
  World world;
  world.rank = world.local_rank = rank;
  world.size = world.local_size = 2;
  world.master_addr = "127.0.0.1";
  world.master_port = port;
  try {
    const Rendezvous rendezvous(world, 20);
    const auto context = std::make_shared<RankContext>();
    context->rank = rank;
    context->progress.step = 3;
    context->progress.phase = "backward";
    body(rendezvous.host(context)("tp", "tp/0", {0, 1}));
  } catch (const EnvironmentError& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "ended";
}

// Runs body(group) in two processes of a Gloo group. A process that aborts says nothing.
std::array<std::string, 2> said_by_ranks(const std::function<void(const Group&)>& body) {
  const int64_t port = free_port();
  std::array<int, 2> readers{}, children{};
  for (int rank = 0; rank < 2; ++rank) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    children[static_cast<size_t>(rank)] = ::fork();
    if (children[static_cast<size_t>(rank)] == 0) {
      const std::string said = run_rank(rank, port, body);
      const auto written = ::write(ends[1], said.data(), said.size());
      ::_exit(written == static_cast<ssize_t>(said.size()) ? 0 : 1);
    }
    ::close(ends[1]);
    readers[static_cast<size_t>(rank)] = ends[0];
  }
  std::array<std::string, 2> said;
  for (size_t rank = 0; rank < 2; ++rank) {
    std::array<char, 4096> buffer{};
    for (ssize_t n = 0; (n = ::read(readers[rank], buffer.data(), buffer.size())) > 0;) {
      said[rank].append(buffer.data(), static_cast<size_t>(n));
    }
    ::close(readers[rank]);
    int status = 0;
    ::waitpid(children[rank], &status, 0);
    EXPECT_TRUE(WIFEXITED(status))
        << "rank " << rank << " was ended by signal " << WTERMSIG(status);
  }
  return said;
}

Tensor rows(int64_t count) { return at::ones({count, 2}, at::kFloat); }

struct Fault {
  const char* collective;
  std::function<void(const Group&, int64_t count)> call;
};

TEST(ShapeCheck, RanksWithOtherSizesAreNamedByEveryCollective) {
  const std::vector<Fault> faults = {
      {"all-reduce", [](const Group& g, int64_t n) { g.all_reduce(rows(n)); }},
      {"all-gather", [](const Group& g, int64_t n) { g.all_gather(rows(n), 0); }},
      {"reduce-scatter", [](const Group& g, int64_t n) { g.reduce_scatter(rows(2 * n), 0); }},
      {"all-to-all", [](const Group& g, int64_t n) { g.all_to_all(rows(2 * n), 0, 0); }},
      {"broadcast", [](const Group& g, int64_t n) {
         Tensor x = rows(n);
         g.broadcast(x, 0);
       }}};
  for (const auto& [collective, call] : faults) {
    const auto said = said_by_ranks([&](const Group& group) {
      call(group, 4);  // alike: nothing is said
      call(group, group.rank() == 0 ? 5 : 6000);
    });
    for (int64_t rank = 0; rank < 2; ++rank) {
      EXPECT_THAT(
          said[static_cast<size_t>(rank)],
          AllOf(HasSubstr(fmt::format("rank {}, step 3, backward: {} over axis tp (2 ranks) "
                                      "failed: rank {} of the axis brings {} of ",
                                      rank, collective, 1 - rank, collective)),
                HasSubstr("Float, this rank"), HasSubstr("start all with one")));
    }
  }
}

TEST(ShapeCheck, OtherDtypesAndOtherCollectivesAreNamedToo) {
  auto said = said_by_ranks([](const Group& group) {
    group.all_reduce(rows(4).to(group.rank() == 0 ? at::kFloat : at::kDouble));
  });
  EXPECT_THAT(said[0], HasSubstr("brings all-reduce of 8 Double, this rank all-reduce of 8 Float"));
  EXPECT_THAT(said[1], HasSubstr("brings all-reduce of 8 Float, this rank all-reduce of 8 Double"));
  said = said_by_ranks([](const Group& group) {
    group.rank() == 0 ? group.all_reduce(rows(4)) : group.all_gather(rows(4), 0);
  });
  EXPECT_THAT(said[0], HasSubstr("all-reduce over axis tp (2 ranks) failed: rank 1"));
  EXPECT_THAT(said[1], HasSubstr("all-gather over axis tp (2 ranks) failed: rank 0"));
}

// One rank knows the size from before, the other does not: a timeout with a name, no abort.
TEST(ShapeCheck, ASizeThatOneRankAloneKnowsIsATimeout) {
  const auto said = said_by_ranks([](const Group& group) {
    group.all_reduce(rows(4));
    group.set_timeout(1);
    group.all_reduce(rows(group.rank() == 0 ? 4 : 4000));
  });
  for (const auto& message : said) {
    EXPECT_THAT(message, HasSubstr("step 3, backward: all-reduce over axis tp (2 ranks) failed: "));
  }
}

TEST(ShapeCheck, AMessageOfAnotherSizeIsNamedByWhoTakesIt) {
  const auto said = said_by_ranks([](const Group& group) {
    Tensor x = rows(group.rank() == 0 ? 6000 : 5);
    if (group.rank() == 0) {
      group.start_send(x, 1, 7).wait();
    } else {
      group.start_receive(x, 0, 7).wait();
    }
  });
  EXPECT_THAT(said[1], HasSubstr("receive over axis tp (2 ranks) failed: rank 0 of the axis brings "
                                 "message of 12000 Float, this rank message of 10 Float"));
  EXPECT_THAT(said[0], HasSubstr("send over axis tp (2 ranks) failed: "));
}

TEST(ShapeCheck, MessagesOfOneSizeArrive) {
  const auto said = said_by_ranks([](const Group& group) {
    const int64_t other = 1 - group.rank();
    for (int64_t tag = 0; tag < 3; ++tag) {
      Tensor out = at::full({4}, static_cast<double>(group.rank() + tag));
      Tensor in = at::empty_like(out);
      Pending sent = group.start_send(out, other, tag);
      group.start_receive(in, other, tag).wait();
      sent.wait();
      if (!in.equal(at::full({4}, static_cast<double>(other + tag)))) throw Error("wrong values");
    }
    group.barrier();
  });
  EXPECT_THAT(said, testing::Each("ended"));
}

}  // namespace
}  // namespace titan::comm
