// What parallelism.enable_async_tensor_parallel hides where messages take time of their own: ranks
// as threads over a link that delivers after latency + bytes / bandwidth and costs no processor
// time, as a network card or NVLink does. Feed-forward halves of a block, forward and backward;
// plain and taken apart alternate in one run. Prints the ratio of times, and how much of the
// messages' time is hidden.
//   tensor_overlap [ranks] [rounds] [share of the messages in the plain time, e.g. 0.3]
#include <ATen/Parallel.h>

#include <torch/csrc/autograd/autograd.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "comm/thread_world.h"
#include "comm/wrapped_backend.h"
#include "nn/feed_forward.h"

namespace {

using namespace titan;
using at::Tensor;
using Clock = std::chrono::steady_clock;

struct Link {
  double bytes_per_s = 0;  // 0: at once
};

// Messages of one rank leave one after the other.
class DelayedBackend : public comm::WrappedBackend {
 public:
  DelayedBackend(c10::intrusive_ptr<c10d::Backend> inner, const Link* link)
      : WrappedBackend(std::move(inner)), link_(link) {}

  WorkPtr _allgather_base(Tensor& out, Tensor& in, const c10d::AllgatherOptions& o) override {
    return delay(WrappedBackend::_allgather_base(out, in, o), (getSize() - 1) * in.nbytes());
  }
  WorkPtr _reduce_scatter_base(Tensor& out, Tensor& in,
                               const c10d::ReduceScatterOptions& o) override {
    return delay(WrappedBackend::_reduce_scatter_base(out, in, o), (getSize() - 1) * out.nbytes());
  }
  WorkPtr recv(Tensors& x, int from, int tag) override {
    return delay(WrappedBackend::recv(x, from, tag), x[0].nbytes());
  }

 private:
  WorkPtr delay(const WorkPtr& work, size_t bytes) {
    if (link_->bytes_per_s == 0) return work;
    const auto length = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(static_cast<double>(bytes) / link_->bytes_per_s));
    free_ = std::max(Clock::now(), free_) + length;
    return c10::make_intrusive<comm::WrappedWork>(
        work, [at = free_] { std::this_thread::sleep_until(at); });
  }

  const Link* link_;
  Clock::time_point free_{};
};

constexpr int64_t kTokens = 512, kDim = 512, kHidden = 2048;  // of all ranks

// Seconds of a forward and backward pass on all ranks.
double pass(int64_t ranks, const Link& link, bool overlap) {
  const comm::ThreadWorld world(
      ranks, [&](auto inner, const auto&, const auto&) -> c10::intrusive_ptr<c10d::Backend> {
        return c10::make_intrusive<DelayedBackend>(inner, &link);
      });
  const auto begin = Clock::now();
  world.run([&](int64_t rank) {
    at::set_num_threads(1);
    std::vector<int64_t> all;
    for (int64_t r = 0; r < ranks; ++r) all.push_back(r);
    nn::Axes axes;
    const auto context = std::make_shared<comm::RankContext>();
    axes.tp = world.maker(rank, context)("tp", "tp", all);
    axes.overlap_tp = overlap;
    const auto leaf = [](at::IntArrayRef shape) { return at::ones(shape).requires_grad_(); };
    const nn::FeedForward p{leaf({kHidden / ranks, kDim}), leaf({kDim, kHidden / ranks}),
                            leaf({kHidden / ranks, kDim})};
    const Tensor x = leaf({1, kTokens / ranks, kDim});
    const Tensor y = nn::feed_forward(p, x, axes);
    torch::autograd::backward({y}, {at::ones_like(y)});
  });
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t ranks = argc > 1 ? std::atoll(argv[1]) : 2;
  const int64_t rounds = argc > 2 ? std::atoll(argv[2]) : 15;
  const double share = argc > 3 ? std::atof(argv[3]) : 0.3;
  std::vector<double> compute;
  for (int64_t i = 0; i < rounds; ++i) compute.push_back(pass(ranks, {}, false));
  const double alone = median(compute);
  // Two gathers and two reductions a pass.
  const double bytes = 4.0 * static_cast<double>((ranks - 1) * kTokens / ranks * kDim * 4);
  const Link link{bytes / (alone * share / (1 - share))};
  const double messages = bytes / link.bytes_per_s;
  std::vector<double> ratios, hidden;
  for (int64_t i = 0; i < rounds; ++i) {
    const double plain = pass(ranks, link, false);
    const double apart = pass(ranks, link, true);
    ratios.push_back(plain / apart);
    hidden.push_back((plain - apart) / messages);
  }
  const auto [low, high] = std::ranges::minmax(ratios);
  std::printf(
      "%ld ranks, products %.1f ms, messages %.1f ms (%.0f%% of the plain path)\n"
      "plain / taken apart: min %.3f, median %.3f, max %.3f over %ld pairs; median of the hidden "
      "share of the messages %.0f%%\n",
      static_cast<long>(ranks), 1e3 * alone, 1e3 * messages, 100 * share, low, median(ratios), high,
      static_cast<long>(rounds), 100 * median(hidden));
}
