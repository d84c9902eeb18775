// Split matrices with their messages taken apart: equal to the plain path, the same bytes, and the
// order of events that makes them overlap.
#include "nn/parallel_linear.h"

#include <ATen/record_function.h>
#include <gmock/gmock.h>

#include <torch/csrc/autograd/autograd.h>
#include <map>

#include "comm/thread_world.h"
#include "comm/wrapped_backend.h"
#include "ops/checks.h"
#include "ops/deferred.h"

namespace titan::nn {
namespace {

using at::Tensor;
using ops::distance;
using ops::seeded;
using Strings = std::vector<std::string>;
using testing::ElementsAre;

constexpr double kEqual = 1e-12;

// What the ranks of a world do: body(axes, context) on a thread each.
using Body = std::function<void(const Axes&, comm::RankContext&)>;

void on_ranks(int64_t size, bool overlap, const Body& body,
              const comm::BackendDecorator& decorate = nullptr) {
  const comm::ThreadWorld world(size, decorate);
  world.run([&](int64_t rank) {
    const auto context = std::make_shared<comm::RankContext>();
    std::vector<int64_t> ranks;
    for (int64_t r = 0; r < size; ++r) ranks.push_back(r);
    Axes axes;
    axes.tp = world.maker(rank, context)("tp", "tp", ranks);
    axes.overlap_tp = overlap;
    body(axes, *context);
  });
}

struct Layer {
  Tensor x, up, gate, down;
};

// A pair of projections, their product, and a projection back: 5, 3 and 4 features of a rank.
Layer layer_of(int64_t rank, int64_t size, int64_t tokens = 4, int64_t batch = 2) {
  const auto whole = seeded({batch, tokens * size, 6}, at::kDouble, 1);
  const auto own = [&](at::IntArrayRef shape, int64_t seed) {
    return seeded(shape, at::kDouble, 10 * rank + seed).requires_grad_();
  };
  return {whole.narrow(1, rank * tokens, tokens).clone().requires_grad_(), own({5, 6}, 2),
          own({5, 6}, 3), own({6, 5}, 4)};
}

// The gradient of the result, other tokens' on each rank.
Tensor seed_of(const Layer& l, const Axes& axes) {
  return seeded(l.x.sizes(), at::kDouble, 90 + static_cast<uint64_t>(axes.tp.rank()));
}

Tensor forward(const Layer& l, const Axes& axes) {
  const auto hidden = gather_linear(l.x, {{l.up}, {l.gate}}, axes);
  return linear_scatter(hidden[0] * hidden[1], l.down, axes);
}

struct Outcome {
  Tensor y;
  std::vector<Tensor> gradients;
  int64_t bytes = 0;
};

std::vector<Outcome> run(int64_t size, bool overlap,
                         const comm::BackendDecorator& decorate = nullptr) {
  std::vector<Outcome> outcomes(static_cast<size_t>(size));
  on_ranks(
      size, overlap,
      [&](const Axes& axes, comm::RankContext& context) {
        const Layer l = layer_of(axes.tp.rank(), size);
        auto& outcome = outcomes[static_cast<size_t>(axes.tp.rank())];
        outcome.y = forward(l, axes).detach();
        torch::autograd::backward({forward(l, axes)}, {seed_of(l, axes)});
        outcome.gradients = {l.x.grad(), l.up.grad(), l.gate.grad(), l.down.grad()};
        for (const auto& [key, sum] : context.traffic.sums()) outcome.bytes += sum.bytes;
      },
      decorate);
  return outcomes;
}

double farthest(const std::vector<Outcome>& a, const std::vector<Outcome>& b) {
  double worst = 0;
  for (size_t r = 0; r < a.size(); ++r) {
    worst = std::max(worst, distance(a[r].y, b[r].y));
    for (size_t i = 0; i < a[r].gradients.size(); ++i) {
      worst = std::max(worst, distance(a[r].gradients[i], b[r].gradients[i]));
    }
  }
  return worst;
}

TEST(ParallelLinear, OverlapChangesNeitherValuesNorBytes) {
  for (const int64_t size : {2, 3, 4, 5}) {
    const auto plain = run(size, false), taken_apart = run(size, true);
    EXPECT_LE(farthest(taken_apart, plain), kEqual) << size;
    for (size_t r = 0; r < plain.size(); ++r) EXPECT_EQ(taken_apart[r].bytes, plain[r].bytes);
    // Two forward passes and a backward pass, a gather and a reduction each, of float64.
    EXPECT_EQ(plain[0].bytes, 3 * 2 * (size - 1) * 2 * 4 * 6 * 8);
  }
}

// Loses, or swaps with the one before, message `number` that rank 1 gets.
class Tampering : public comm::WrappedBackend {
 public:
  Tampering(c10::intrusive_ptr<c10d::Backend> inner, int number, bool swap)
      : WrappedBackend(std::move(inner)), number_(number), swap_(swap) {}
  WorkPtr recv(Tensors& x, int from, int tag) override {
    auto work = WrappedBackend::recv(x, from, tag);
    if (getRank() != 1) return work;
    return c10::make_intrusive<comm::WrappedWork>(work, [this, in = x[0]] {
      const at::NoGradGuard no_grad;
      if (seen_++ == number_) {
        const Tensor now = in.clone();
        swap_ ? in.copy_(before_) : in.zero_();
        if (swap_) before_.copy_(now);
      } else {
        before_ = in;
      }
    });
  }

 private:
  int number_, seen_ = 0;
  bool swap_;
  Tensor before_;
};

TEST(ParallelLinear, ALostOrMisplacedChunkIsSeen) {
  const auto plain = run(3, false);
  // Two messages for each gather and each reduction: two forward passes, one backward pass. The
  // first pass is compared by its output, the others by their gradients.
  for (int number = 0; number < 12; ++number) {
    for (const bool swap : {false, true}) {
      if (swap && number % 2 == 0) continue;
      const auto tampered = run(
          3, true, [&](auto inner, const auto&, const auto&) -> c10::intrusive_ptr<c10d::Backend> {
            return c10::make_intrusive<Tampering>(inner, number, swap);
          });
      // The second pass's output is not compared, nor are the sums that lead to it.
      const bool unread = number == 6 || number == 7;
      if (unread) continue;
      EXPECT_GT(farthest(tampered, plain), 1e-3) << number << (swap ? " swapped" : " lost");
    }
  }
}

// What this thread did, in order: products, and turns of the ring as they start and end.
thread_local Strings* events = nullptr;

std::unique_ptr<at::ObserverContext> note_product(const at::RecordFunction& function) {
  if (events && std::string(function.name()) == "aten::mm") events->push_back("product");
  return nullptr;
}

class Observed : public comm::WrappedBackend {
 public:
  using WrappedBackend::WrappedBackend;
  WorkPtr recv(Tensors& x, int from, int tag) override {
    if (events) events->push_back("start");
    return c10::make_intrusive<comm::WrappedWork>(WrappedBackend::recv(x, from, tag), [] {
      if (events) events->push_back("end");
    });
  }
};

// The events of rank 0 of `size` in `body`.
Strings events_of(int64_t size, const Body& body) {
  Strings seen;
  on_ranks(
      size, true,
      [&](const Axes& axes, comm::RankContext& context) {
        const auto handle = at::addThreadLocalCallback(
            at::RecordFunctionCallback(note_product).scopes({at::RecordScope::FUNCTION}));
        if (axes.tp.rank() == 0) events = &seen;
        body(axes, context);
        events = nullptr;
        at::removeCallback(handle);
      },
      [](auto inner, const auto&, const auto&) -> c10::intrusive_ptr<c10d::Backend> {
        return c10::make_intrusive<Observed>(inner);
      });
  return seen;
}

// Every turn starts before the product that hides it and ends after it.
TEST(ParallelLinear, AChunkTravelsWhileAnotherIsMultiplied) {
  EXPECT_THAT(events_of(3,
                        [](const Axes& axes, comm::RankContext&) {
                          const Layer l = layer_of(axes.tp.rank(), 3);
                          gather_linear(l.x, {{l.up}}, axes);
                        }),
              ElementsAre("start", "product", "end", "start", "product", "end", "product"));
  EXPECT_THAT(events_of(3,
                        [](const Axes& axes, comm::RankContext&) {
                          const Layer l = layer_of(axes.tp.rank(), 3);
                          linear_scatter(seeded({2, 12, 5}, at::kDouble, 7), l.down, axes);
                        }),
              ElementsAre("product", "start", "product", "end", "start", "product", "end"));
}

TEST(ParallelLinear, BackwardHidesItsMessagesToo) {
  // The gradient of the gathered tokens; the last turn is hidden by the weights' gradients, too.
  EXPECT_THAT(
      events_of(3,
                [](const Axes& axes, comm::RankContext&) {
                  const Layer l = layer_of(axes.tp.rank(), 3);
                  auto* const seen = std::exchange(events, nullptr);
                  const auto y = gather_linear(l.x, {{l.up}}, axes);
                  events = seen;
                  torch::autograd::backward({y[0]}, {at::ones_like(y[0])});
                }),
      ElementsAre("product", "start", "product", "end", "start", "product", "product", "end"));
  EXPECT_THAT(
      events_of(3,
                [](const Axes& axes, comm::RankContext&) {
                  const Layer l = layer_of(axes.tp.rank(), 3);
                  const Tensor h = seeded({2, 12, 5}, at::kDouble, 7).requires_grad_();
                  auto* const seen = std::exchange(events, nullptr);
                  const auto y = linear_scatter(h, l.down, axes);
                  events = seen;
                  torch::autograd::backward({y}, {at::ones_like(y)});
                }),
      ElementsAre("start", "product", "end", "start", "product", "end", "product", "product"));
}

// Weight gradients of one parameter, wherever they are asked to go.
class Collecting : public ops::WeightGradientSink {
 public:
  explicit Collecting(Tensor weight) : weight_(std::move(weight)) {}
  std::function<void(const Tensor&)> sink_of(const Tensor& weight) override {
    if (!weight.is_same(weight_)) return nullptr;
    return [this](const Tensor& gradient) { collected = gradient; };
  }
  Tensor collected;

 private:
  Tensor weight_;
};

TEST(ParallelLinear, WeightGradientsCanBePutOffOneByOne) {
  const auto plain = run(2, false);
  on_ranks(2, true, [&](const Axes& axes, comm::RankContext&) {
    const auto& expected = plain[static_cast<size_t>(axes.tp.rank())].gradients;
    const Layer l = layer_of(axes.tp.rank(), 2);
    ops::DeferredGradients queue;
    Collecting sink(l.gate);
    Tensor y;
    {
      const ops::DeferGradients deferral(&queue, &sink);
      y = forward(l, axes);
    }
    torch::autograd::backward({y}, {seed_of(l, axes)});
    EXPECT_FALSE(l.gate.grad().defined());
    EXPECT_FALSE(sink.collected.defined());
    ASSERT_EQ(queue.size(), 1u);
    queue[0]();
    EXPECT_LE(distance(sink.collected, expected[2]), kEqual);
    EXPECT_LE(distance(l.x.grad(), expected[0]), kEqual);
    EXPECT_LE(distance(l.up.grad(), expected[1]), kEqual);
    EXPECT_LE(distance(l.down.grad(), expected[3]), kEqual);
  });
}

}  // namespace
}  // namespace titan::nn
