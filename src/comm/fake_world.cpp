#include "comm/fake_world.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/error.h"

namespace titan::comm {
namespace {

using at::Tensor;
using FakeWorkPtr = c10::intrusive_ptr<c10d::Work>;

class EndedWork : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds) override { return true; }
  bool isCompleted() override { return true; }
};

class FakeBackend : public c10d::Backend {
 public:
  FakeBackend(int64_t rank, int64_t size)
      : c10d::Backend(static_cast<int>(rank), static_cast<int>(size)) {}

  const std::string getBackendName() const override { return "fake"; }
  void setTimeout(std::chrono::milliseconds) override {}

  FakeWorkPtr allreduce(std::vector<Tensor>&, const c10d::AllreduceOptions&) override {
    return ended();
  }
  FakeWorkPtr broadcast(std::vector<Tensor>&, const c10d::BroadcastOptions&) override {
    return ended();
  }
  FakeWorkPtr barrier(const c10d::BarrierOptions&) override { return ended(); }

  FakeWorkPtr _allgather_base(Tensor& out, Tensor& in, const c10d::AllgatherOptions&) override {
    const at::NoGradGuard no_grad;
    out.view({size_, -1}).copy_(in.reshape({1, -1}).expand({size_, -1}));
    return ended();
  }

  FakeWorkPtr _reduce_scatter_base(Tensor& out, Tensor& in,
                                   const c10d::ReduceScatterOptions&) override {
    const at::NoGradGuard no_grad;
    out.view({-1}).copy_(in.view({size_, -1})[rank_]);
    return ended();
  }

  FakeWorkPtr alltoall_base(Tensor& out, Tensor& in, std::vector<int64_t>&, std::vector<int64_t>&,
                            const c10d::AllToAllOptions&) override {
    const at::NoGradGuard no_grad;
    if (out.numel() == in.numel()) {
      out.view({-1}).copy_(in.view({-1}));
    } else {
      out.zero_();
    }
    return ended();
  }

  FakeWorkPtr send(std::vector<Tensor>&, int, int) override { return ended(); }
  FakeWorkPtr recv(std::vector<Tensor>& tensors, int, int) override {
    const at::NoGradGuard no_grad;
    tensors[0].zero_();
    return ended();
  }

 private:
  static FakeWorkPtr ended() { return c10::make_intrusive<EndedWork>(); }
};

}  // namespace

GroupMaker fake_world(int64_t rank, std::shared_ptr<RankContext> context) {
  return [rank, context](const std::string& axis, const std::string& id,
                         const std::vector<int64_t>& ranks) {
    const auto me = std::find(ranks.begin(), ranks.end(), rank);
    TITAN_CHECK(me != ranks.end(), "rank {} is not in group {}", rank, id);
    return Group(
        axis,
        c10::make_intrusive<FakeBackend>(me - ranks.begin(), static_cast<int64_t>(ranks.size())),
        context);
  };
}

}  // namespace titan::comm
