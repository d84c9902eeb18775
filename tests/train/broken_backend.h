// Decorators of a layout's back ends (comm::BackendDecorator): one makes a chosen mistake in a
// chosen collective of every rank, one writes down which collectives a rank calls. Both stand where
// a real back end stands: the trainer knows nothing of them.
#pragma once

#include <ATen/core/grad_mode.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "comm/thread_world.h"

namespace titan::train {

using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using at::Tensor;

enum class Mistake {
  kDropped,   // nothing is sent: a rank goes on with its own part
  kHalved,    // the result is divided by 2
  kSilenced,  // ranks from `first_rank` on bring 0 as the first element
};

struct Mutation {
  std::string name;
  std::string axis, collective;
  Mistake mistake = Mistake::kDropped;
  std::string phase = {};  // empty: in any
  int64_t first_rank = 0;

  // Calls that were changed, on all ranks: a mutation that met none proves nothing.
  std::shared_ptr<std::atomic<int64_t>> met = std::make_shared<std::atomic<int64_t>>(0);
};

class DoneWork : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds) override { return true; }
  bool isCompleted() override { return true; }
};

// Passes everything on.
class PassingBackend : public c10d::Backend {
 public:
  explicit PassingBackend(BackendPtr inner)
      : c10d::Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}
  const std::string getBackendName() const override { return inner_->getBackendName(); }

  WorkPtr allreduce(std::vector<Tensor>& x, const c10d::AllreduceOptions& options) override {
    return around("all-reduce", x[0], x[0], [&] { return inner_->allreduce(x, options); });
  }
  WorkPtr _allgather_base(Tensor& out, Tensor& in, const c10d::AllgatherOptions& options) override {
    return around("all-gather", out, in, [&] { return inner_->_allgather_base(out, in, options); });
  }
  WorkPtr _reduce_scatter_base(Tensor& out, Tensor& in,
                               const c10d::ReduceScatterOptions& options) override {
    return around("reduce-scatter", out, in,
                  [&] { return inner_->_reduce_scatter_base(out, in, options); });
  }
  WorkPtr alltoall_base(Tensor& out, Tensor& in, std::vector<int64_t>& to,
                        std::vector<int64_t>& from, const c10d::AllToAllOptions& options) override {
    return around("all-to-all", out, in,
                  [&] { return inner_->alltoall_base(out, in, to, from, options); });
  }
  WorkPtr broadcast(std::vector<Tensor>& x, const c10d::BroadcastOptions& options) override {
    return around("broadcast", x[0], x[0], [&] { return inner_->broadcast(x, options); });
  }
  WorkPtr send(std::vector<Tensor>& x, int to, int tag) override {
    return around("send", x[0], x[0], [&] { return inner_->send(x, to, tag); });
  }
  WorkPtr recv(std::vector<Tensor>& x, int from, int tag) override {
    return around("receive", x[0], x[0], [&] { return inner_->recv(x, from, tag); });
  }

 protected:
  virtual WorkPtr around(const char* collective, Tensor& out, Tensor& in,
                         const std::function<WorkPtr()>& call) = 0;

 private:
  BackendPtr inner_;
};

class BrokenBackend : public PassingBackend {
 public:
  BrokenBackend(BackendPtr inner, Mutation mutation, std::shared_ptr<const comm::RankContext> rank)
      : PassingBackend(std::move(inner)),
        mutation_(std::move(mutation)),
        context_(std::move(rank)) {}

 protected:
  WorkPtr around(const char* collective, Tensor& out, Tensor& in,
                 const std::function<WorkPtr()>& call) override {
    if (!applies(collective)) return call();
    const at::NoGradGuard no_grad;
    ++*mutation_.met;
    if (mutation_.mistake == Mistake::kDropped) {
      keep_own(out, in);
      return c10::make_intrusive<DoneWork>();
    }
    if (mutation_.mistake == Mistake::kSilenced) in.view({-1})[0].zero_();
    WorkPtr work = call();
    work->wait();
    if (mutation_.mistake == Mistake::kHalved) out.mul_(0.5);
    return work;
  }

 private:
  bool applies(const std::string& collective) const {
    return collective == mutation_.collective && context_->rank >= mutation_.first_rank &&
           (mutation_.phase.empty() || mutation_.phase == context_->progress.phase.load());
  }
  // What a rank has when nobody else speaks.
  void keep_own(Tensor& out, const Tensor& in) const {
    if (in.numel() > out.numel()) {
      out.copy_(in.view({getSize(), -1})[getRank()].view_as(out));
    } else if (in.numel() < out.numel()) {
      out.view({getSize(), -1}).copy_(in.view({1, -1}).expand({getSize(), -1}));
    }
  }

  Mutation mutation_;
  std::shared_ptr<const comm::RankContext> context_;
};

inline comm::BackendDecorator broken(const Mutation& mutation) {
  return [mutation](BackendPtr inner, const std::string& axis,
                    const std::shared_ptr<const comm::RankContext>& context) -> BackendPtr {
    if (axis != mutation.axis) return inner;
    return c10::make_intrusive<BrokenBackend>(std::move(inner), mutation, context);
  };
}

// What each rank calls, in order: (axis, collective).
struct Events {
  using Event = std::pair<std::string, std::string>;
  std::mutex mutex;
  std::map<int64_t, std::vector<Event>> of_rank;
};

class WatchedBackend : public PassingBackend {
 public:
  WatchedBackend(BackendPtr inner, std::string axis, std::shared_ptr<const comm::RankContext> rank,
                 Events& events)
      : PassingBackend(std::move(inner)),
        axis_(std::move(axis)),
        context_(std::move(rank)),
        events_(events) {}

 protected:
  WorkPtr around(const char* collective, Tensor&, Tensor&,
                 const std::function<WorkPtr()>& call) override {
    {
      const std::lock_guard lock(events_.mutex);
      events_.of_rank[context_->rank].emplace_back(axis_, collective);
    }
    return call();
  }

 private:
  std::string axis_;
  std::shared_ptr<const comm::RankContext> context_;
  Events& events_;
};

// `events` outlives the run.
inline comm::BackendDecorator watched(Events& events) {
  return [&events](BackendPtr inner, const std::string& axis,
                   const std::shared_ptr<const comm::RankContext>& context) -> BackendPtr {
    return c10::make_intrusive<WatchedBackend>(std::move(inner), axis, context, events);
  };
}

}  // namespace titan::train
