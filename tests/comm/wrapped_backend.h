// A c10d backend in front of another one: tests derive from it to watch or to tamper with messages.
#pragma once

#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

namespace titan::comm {

class WrappedBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  explicit WrappedBackend(c10::intrusive_ptr<c10d::Backend> inner)
      : c10d::Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}

  const std::string getBackendName() const override { return "wrapped"; }
  WorkPtr allreduce(Tensors& x, const c10d::AllreduceOptions& o) override {
    return inner_->allreduce(x, o);
  }
  WorkPtr _allgather_base(at::Tensor& out, at::Tensor& in,
                          const c10d::AllgatherOptions& o) override {
    return inner_->_allgather_base(out, in, o);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                               const c10d::ReduceScatterOptions& o) override {
    return inner_->_reduce_scatter_base(out, in, o);
  }
  WorkPtr alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<int64_t>& out_splits,
                        std::vector<int64_t>& in_splits, const c10d::AllToAllOptions& o) override {
    return inner_->alltoall_base(out, in, out_splits, in_splits, o);
  }
  WorkPtr broadcast(Tensors& x, const c10d::BroadcastOptions& o) override {
    return inner_->broadcast(x, o);
  }
  WorkPtr send(Tensors& x, int to, int tag) override { return inner_->send(x, to, tag); }
  WorkPtr recv(Tensors& x, int from, int tag) override { return inner_->recv(x, from, tag); }

 private:
  c10::intrusive_ptr<c10d::Backend> inner_;
};

// Waits for the work behind it, then calls `after`.
class WrappedWork : public c10d::Work {
 public:
  WrappedWork(c10::intrusive_ptr<c10d::Work> inner, std::function<void()> after)
      : inner_(std::move(inner)), after_(std::move(after)) {}
  bool isCompleted() override { return inner_->isCompleted(); }
  bool wait(std::chrono::milliseconds timeout) override {
    const bool ok = inner_->wait(timeout);
    if (after_) std::exchange(after_, nullptr)();
    return ok;
  }

 private:
  c10::intrusive_ptr<c10d::Work> inner_;
  std::function<void()> after_;
};

}  // namespace titan::comm
