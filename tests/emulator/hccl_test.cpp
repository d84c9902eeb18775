// ProcessGroupHCCL of the adapter between processes, over the emulated HCCL. Each test forks its
// ranks before anything of the device exists in the parent.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <torch_npu/csrc/core/npu/NPUFunctions.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch_npu/csrc/distributed/ProcessGroupHCCL.hpp>

#include "emulator/npu.h"

namespace npu_test {
namespace {

using Group = c10d_npu::ProcessGroupHCCL;
using Ranks = std::function<void(Group& group, int rank, int size, at::Device device)>;

std::string store_file() {
  static int number = 0;
  return (std::filesystem::temp_directory_path() /
          ("emulator_hccl_" + std::to_string(getpid()) + "_" + std::to_string(number++)))
      .string();
}

c10::intrusive_ptr<Group> open_group(const std::string& file, int rank, int size) {
  auto store = c10::make_intrusive<c10d::FileStore>(file, size);
  auto options = Group::Options::create();
  options->timeout = std::chrono::seconds(60);
  return c10::make_intrusive<Group>(store, rank, size, options);
}

int run_rank(const Ranks& body, const std::string& file, int rank, int size) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  try {
    device();
    c10_npu::set_device(static_cast<c10::DeviceIndex>(rank));
    auto group = open_group(file, rank, size);
    body(*group, rank, size, at::Device(at::kPrivateUse1, static_cast<c10::DeviceIndex>(rank)));
    c10_npu::npuSynchronizeDevice();
    group->shutdown();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %.600s\n", rank, error.what());
    return 3;
  }
  return testing::Test::HasFailure() ? 1 : 0;
}

// Exit codes of the ranks.
std::vector<int> run_ranks(int size, const Ranks& body) {
  const std::string file = store_file();
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      const int code = run_rank(body, file, rank, size);
      std::fflush(nullptr);
      _exit(code);
    }
    children.push_back(child);
  }
  std::vector<int> codes;
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  std::filesystem::remove(file);
  return codes;
}

void expect_all_good(int size, const Ranks& body) {
  EXPECT_EQ(run_ranks(size, body), std::vector<int>(size, 0));
}

void expect_equal(const Tensor& got, const Tensor& want) {
  EXPECT_TRUE(at::equal(got.cpu(), want)) << "got " << got.cpu() << "\nwant " << want;
}

void all_collectives(Group& group, int rank, int size, at::Device device) {
  const Tensor base = at::arange(4, at::kFloat);
  const double sum_of_ranks = size * (size - 1) / 2.0;

  Tensors x{(base + rank).to(device)};
  group.allreduce(x)->wait();
  expect_equal(x[0], base * size + sum_of_ranks);

  Tensors half{(base + rank).to(device, at::kBFloat16)};
  group.allreduce(half)->wait();
  expect_equal(half[0], (base * size + sum_of_ranks).to(at::kBFloat16));

  c10d::AllreduceOptions greatest;
  greatest.reduceOp = c10d::ReduceOp::MAX;
  Tensors whole{at::full({3}, rank, at::kLong).to(device)};
  group.allreduce(whole, greatest)->wait();
  expect_equal(whole[0], at::full({3}, size - 1, at::kLong));

  Tensor gathered = at::empty({4 * size}, x[0].options()), own = (base + 10 * rank).to(device);
  group._allgather_base(gathered, own)->wait();
  Tensors rows;
  for (int peer = 0; peer < size; ++peer) rows.push_back(base + 10 * peer);
  expect_equal(gathered, at::cat(rows));

  Tensor part = at::empty({2}, x[0].options()),
         all = (at::arange(2 * size, at::kFloat) * (rank + 1)).to(device);
  group._reduce_scatter_base(part, all)->wait();
  expect_equal(part, (at::arange(2 * size, at::kFloat) * (size * (size + 1) / 2.0))
                         .slice(0, 2 * rank, 2 * rank + 2));

  Tensor taken = at::empty({size}, x[0].options()),
         sent = (at::arange(size, at::kFloat) + 100 * rank).to(device);
  std::vector<int64_t> equal;
  group.alltoall_base(taken, sent, equal, equal)->wait();
  expect_equal(taken, at::arange(size, at::kFloat) * 100 + rank);

  Tensors note{rank == 1 ? (base * 3).to(device) : at::zeros({4}).to(device)};
  c10d::BroadcastOptions from_one;
  from_one.rootRank = 1;
  group.broadcast(note, from_one)->wait();
  expect_equal(note[0], base * 3);
  group.barrier()->wait();
}

TEST(Hccl, CollectivesOfTwoProcesses) { expect_all_good(2, all_collectives); }

TEST(Hccl, CollectivesOfFourProcesses) { expect_all_good(4, all_collectives); }

TEST(Hccl, UnevenAllToAll) {
  expect_all_good(3, [](Group& group, int rank, int size, at::Device device) {
    // Rank r sends r + p elements of value 10 r + p to rank p.
    std::vector<int64_t> out_sizes, in_sizes;
    Tensors pieces, wanted;
    for (int peer = 0; peer < size; ++peer) {
      in_sizes.push_back(rank + peer);
      out_sizes.push_back(peer + rank);
      pieces.push_back(at::full({rank + peer}, 10.0 * rank + peer));
      wanted.push_back(at::full({peer + rank}, 10.0 * peer + rank));
    }
    Tensor in = at::cat(pieces).to(device),
           out = at::empty({at::cat(wanted).numel()}, in.options());
    group.alltoall_base(out, in, out_sizes, in_sizes)->wait();
    expect_equal(out, at::cat(wanted));
  });
}

TEST(Hccl, PointToPointInARing) {
  expect_all_good(3, [](Group& group, int rank, int size, at::Device device) {
    Tensors out{at::full({5}, rank, at::kFloat).to(device)}, in{at::zeros({5}).to(device)};
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    // The group makes the sends and receives one call, so a ring cannot wait for itself.
    group.startCoalescing();
    group.send(out, next, 0);
    group.recv(in, previous, 0);
    if (auto work = group.endCoalescing()) work->wait();
    expect_equal(in[0], at::full({5}, previous, at::kFloat));
  });
}

TEST(Hccl, ProductsFusedWithCollectives) {
  expect_all_good(2, [](Group& group, int rank, int size, at::Device device) {
    Tensors ready{at::ones({1}).to(device)};
    group.allreduce(ready)->wait();  // makes the communicator, so that it has a name
    const std::string name = group.getHcclCommName(rank);
    auto part = [](int of, at::IntArrayRef shape) {
      return at::arange(c10::multiply_integers(shape), at::kFloat).view(shape) * (of + 1) / 10;
    };
    const Tensor b = part(0, {3, 5});

    static auto reduce_scatter =
        op<Tensor(const Tensor&, const Tensor&, c10::string_view, int64_t, c10::string_view,
                  const std::optional<Tensor>&, const std::optional<Tensor>&,
                  const std::optional<Tensor>&, int64_t, std::optional<at::ScalarType>,
                  std::optional<c10::string_view>)>("npu::npu_mm_reduce_scatter_base");
    const Tensor scattered = reduce_scatter.call(part(rank, {4, 3}).to(device), b.to(device), name,
                                                 size, "sum", {}, {}, {}, 0, {}, {});
    const Tensor sum = at::mm(part(0, {4, 3}) + part(1, {4, 3}), b);
    expect_close(scattered, sum.slice(0, 2 * rank, 2 * rank + 2), 1e-5, "mm_reduce_scatter_base");

    static auto all_gather = op<std::tuple<Tensor, Tensor>(
        const Tensor&, const Tensor&, c10::string_view, int64_t, const std::optional<Tensor>&,
        const std::optional<Tensor>&, const std::optional<Tensor>&, int64_t, bool, int64_t,
        std::optional<at::ScalarType>, std::optional<c10::string_view>)>(
        "npu::npu_all_gather_base_mm");
    const auto [product, rows] = all_gather.call(part(rank, {2, 3}).to(device), b.to(device), name,
                                                 size, {}, {}, {}, 0, true, 0, {}, {});
    const Tensor whole = at::cat({part(0, {2, 3}), part(1, {2, 3})});
    expect_close(rows, whole, 0, "all_gather_base_mm: rows");
    expect_close(product, at::mm(whole, b), 1e-5, "all_gather_base_mm");
    EXPECT_EQ(calls("aclnnMatmulReduceScatter"), 1U);
    EXPECT_EQ(calls("aclnnAllGatherMatmul"), 1U);
  });
}

TEST(Hccl, MismatchedCollectivesAreAnErrorOnBothRanks) {
  const std::vector<int> codes = run_ranks(2, [](Group& group, int rank, int, at::Device device) {
    Tensors x{at::ones({rank == 0 ? 4 : 8}).to(device)};
    group.allreduce(x)->wait();
    c10_npu::npuSynchronizeDevice();
  });
  for (int code : codes) EXPECT_NE(code, 0);
}

TEST(Hccl, ADeadPeerIsAnErrorAndNoHang) {
  const std::vector<int> codes = run_ranks(2, [](Group& group, int rank, int, at::Device device) {
    Tensors x{at::ones({4}).to(device)};
    group.allreduce(x)->wait();
    x[0].cpu();
    if (rank == 1) _exit(0);
    group.allreduce(x)->wait();
    c10_npu::npuSynchronizeDevice();
  });
  EXPECT_NE(codes[0], 0);
}

TEST(Hccl, AFaultOnDemandFailsTheCollective) {
  const std::vector<int> codes = run_ranks(2, [](Group& group, int, int, at::Device device) {
    set_fault("collective-fail:HcclAllReduce@2/rank1");
    Tensors x{at::ones({4}).to(device)};
    group.allreduce(x)->wait();
    expect_equal(x[0], at::full({4}, 2.0));
    group.allreduce(x)->wait();
    c10_npu::npuSynchronizeDevice();
  });
  EXPECT_NE(codes[1], 0);
}

}  // namespace
}  // namespace npu_test
