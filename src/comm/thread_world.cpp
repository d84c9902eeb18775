#include "comm/thread_world.h"

#include <ATen/core/grad_mode.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <tuple>

#include "base/error.h"

namespace titan::comm {

using at::Tensor;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Where the ranks of one group meet.
class Hub {
 public:
  explicit Hub(int64_t size) : slots_(static_cast<size_t>(size)) {}

  // Lays `mine` down, lets `read` see what all ranks laid down, and returns when all have read.
  void exchange(int64_t rank, const Tensor& mine,
                const std::function<void(const std::vector<Tensor>&)>& read) {
    slots_[static_cast<size_t>(rank)] = mine;
    meet();
    read(slots_);
    meet();
  }

  void put(std::tuple<int64_t, int64_t, int64_t> key, Tensor message) {
    const std::lock_guard lock(mutex_);
    mail_[key].push_back(std::move(message));
    changed_.notify_all();
  }

  Tensor take(std::tuple<int64_t, int64_t, int64_t> key) {
    std::unique_lock lock(mutex_);
    auto& queue = mail_[key];
    changed_.wait(lock, [&] { return !queue.empty() || failure_; });
    if (failure_) std::rethrow_exception(failure_);
    Tensor message = std::move(queue.front());
    queue.pop_front();
    return message;
  }

  void fail(const std::exception_ptr& error) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = error;
    changed_.notify_all();
  }

 private:
  void meet() {
    std::unique_lock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    const int64_t generation = generation_;
    if (++arrived_ == slots_.size()) {
      arrived_ = 0;
      ++generation_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return generation_ != generation || failure_; });
    }
    if (failure_) std::rethrow_exception(failure_);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Tensor> slots_;
  size_t arrived_ = 0;
  int64_t generation_ = 0;
  std::map<std::tuple<int64_t, int64_t, int64_t>, std::deque<Tensor>> mail_;
  std::exception_ptr failure_;
};

namespace {

class DoneWork : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds) override { return true; }
  bool isCompleted() override { return true; }
};

// A receive: the message is fetched when it is waited for.
class ReceiveWork : public c10d::Work {
 public:
  explicit ReceiveWork(std::function<void()> receive) : receive_(std::move(receive)) {}
  bool wait(std::chrono::milliseconds) override {
    if (receive_) std::exchange(receive_, nullptr)();
    return true;
  }

 private:
  std::function<void()> receive_;
};

class ThreadBackend : public c10d::Backend {
 public:
  ThreadBackend(int64_t rank, int64_t size, std::shared_ptr<Hub> hub)
      : c10d::Backend(static_cast<int>(rank), static_cast<int>(size)), hub_(std::move(hub)) {}

  const std::string getBackendName() const override { return "thread"; }

  WorkPtr allreduce(std::vector<Tensor>& tensors, const c10d::AllreduceOptions& options) override {
    Tensor sum;
    const bool maximum = options.reduceOp == c10d::ReduceOp::MAX;
    return exchange(
        tensors[0],
        [&](const auto& all) {
          sum = all[0].clone();
          for (int i = 1; i < size_; ++i) {
            check_shape(all, i);
            sum = maximum ? at::maximum(sum, at_rank(all, i)) : sum.add_(at_rank(all, i));
          }
        },
        [&] { tensors[0].copy_(sum); });
  }

  WorkPtr _allgather_base(Tensor& out, Tensor& in, const c10d::AllgatherOptions&) override {
    return exchange(in, [&](const auto& all) {
      const Tensor rows = out.view({size_, -1});
      for (int i = 0; i < size_; ++i) {
        check_shape(all, i);
        rows[i].copy_(at_rank(all, i).reshape({-1}));
      }
    });
  }

  WorkPtr _reduce_scatter_base(Tensor& out, Tensor& in,
                               const c10d::ReduceScatterOptions&) override {
    return exchange(in, [&](const auto& all) {
      const Tensor flat = out.view({-1});
      for (int i = 0; i < size_; ++i) {
        check_shape(all, i);
        const Tensor block = at_rank(all, i).view({size_, -1})[rank_];
        i == 0 ? flat.copy_(block) : flat.add_(block);
      }
    });
  }

  WorkPtr alltoall_base(Tensor& out, Tensor& in, std::vector<int64_t>& out_splits,
                        std::vector<int64_t>&, const c10d::AllToAllOptions&) override {
    TITAN_CHECK(out_splits.empty(), "uneven all-to-all between threads");
    return exchange(in, [&](const auto& all) {
      const Tensor rows = out.view({size_, -1});
      for (int i = 0; i < size_; ++i) rows[i].copy_(at_rank(all, i).view({size_, -1})[rank_]);
    });
  }

  WorkPtr broadcast(std::vector<Tensor>& tensors, const c10d::BroadcastOptions& options) override {
    return exchange(tensors[0], [&](const auto& all) {
      if (rank_ != options.rootRank) {
        tensors[0].copy_(at_rank(all, static_cast<int>(options.rootRank)));
      }
    });
  }

  WorkPtr send(std::vector<Tensor>& tensors, int to, int tag) override {
    hub_->put({rank_, to, tag}, tensors[0].clone());
    return c10::make_intrusive<DoneWork>();
  }

  WorkPtr recv(std::vector<Tensor>& tensors, int from, int tag) override {
    return c10::make_intrusive<ReceiveWork>([this, out = tensors[0], from, tag] {
      const at::NoGradGuard no_grad;
      const Tensor message = hub_->take({from, rank_, tag});
      TITAN_CHECK(message.sizes() == out.sizes() && message.scalar_type() == out.scalar_type(),
                  "rank {} expects {} elements, rank {} sent {}", rank_, out.numel(), from,
                  message.numel());
      out.copy_(message);
    });
  }

 private:
  WorkPtr exchange(const Tensor& mine, const std::function<void(const std::vector<Tensor>&)>& read,
                   const std::function<void()>& after = nullptr) {
    const at::NoGradGuard no_grad;
    hub_->exchange(rank_, mine, read);
    if (after) after();
    return c10::make_intrusive<DoneWork>();
  }

  static const Tensor& at_rank(const std::vector<Tensor>& all, int rank) {
    return all[static_cast<size_t>(rank)];
  }
  static void check_shape(const std::vector<Tensor>& all, int rank) {
    TITAN_CHECK(at_rank(all, rank).numel() == all[0].numel() &&
                    at_rank(all, rank).scalar_type() == all[0].scalar_type(),
                "rank {} takes part with {} elements, rank 0 with {}", rank,
                at_rank(all, rank).numel(), all[0].numel());
  }

  std::shared_ptr<Hub> hub_;
};

}  // namespace

struct ThreadWorld::Hubs {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Hub>> by_name;
  std::exception_ptr failure;

  std::shared_ptr<Hub> get(const std::string& name, int64_t size) {
    const std::lock_guard lock(mutex);
    auto& hub = by_name[name];
    if (!hub) {
      hub = std::make_shared<Hub>(size);
      if (failure) hub->fail(failure);
    }
    return hub;
  }

  void fail(const std::exception_ptr& error) {
    const std::lock_guard lock(mutex);
    if (!failure) failure = error;
    for (auto& [name, hub] : by_name) hub->fail(failure);
  }
};

ThreadWorld::ThreadWorld(int64_t size, BackendDecorator decorate)
    : size_(size), decorate_(std::move(decorate)), hubs_(std::make_shared<Hubs>()) {}
ThreadWorld::~ThreadWorld() = default;

GroupMaker ThreadWorld::maker(int64_t rank, std::shared_ptr<RankContext> context) const {
  return [hubs = hubs_, decorate = decorate_, rank, context](
             const std::string& axis, const std::string& id, const std::vector<int64_t>& ranks) {
    const auto me = std::find(ranks.begin(), ranks.end(), rank);
    TITAN_CHECK(me != ranks.end(), "rank {} is not in group {}", rank, id);
    const auto size = static_cast<int64_t>(ranks.size());
    c10::intrusive_ptr<c10d::Backend> backend =
        c10::make_intrusive<ThreadBackend>(me - ranks.begin(), size, hubs->get(id, size));
    if (decorate) backend = decorate(std::move(backend), axis, context);
    return Group(axis, std::move(backend), context);
  };
}

void ThreadWorld::run(const std::function<void(int64_t)>& body) const {
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size_; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        hubs_->fail(std::current_exception());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (hubs_->failure) std::rethrow_exception(hubs_->failure);
}

}  // namespace titan::comm
