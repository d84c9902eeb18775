// Whole training steps with tensor-parallel messages taken apart: equal to one process in every mix
// of axes, the bytes of the plain path, and a lost message is seen.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/wrapped_backend.h"
#include "support/tiny_args.h"
#include "train/layout_check.h"

namespace titan::train {
namespace {

// Heads, key/value heads, hidden units and vocabulary that no degree divides evenly.
models::ModelArgs uneven(bool qwen) {
  auto args = qwen ? models::tiny_qwen3() : models::tiny_llama3();
  args.num_layers = 4;
  args.vocab_size = 41;
  return args;
}

void expect_one_process(LayoutCase c, const std::string& what) {
  c.overlap_tp = true;
  const auto d = difference(run_layout(c), run_one_process(c));
  EXPECT_LE(d.loss, 1e-11) << what;
  EXPECT_LE(d.norm, 1e-11) << what;
  EXPECT_LE(d.gradient, 1e-11) << what << ": " << d.worst_gradient;
  EXPECT_LE(d.parameter, 1e-11) << what << ": " << d.worst_parameter;
}

constexpr std::optional<ops::Kept> kRecomputed[] = {std::nullopt, ops::Kept::kNothing,
                                                    ops::Kept::kExpensive};

TEST(TensorOverlap, EveryDegreeEqualsOneProcess) {
  for (const int64_t tp : {2, 3, 4}) {
    for (const bool qwen : {false, true}) {
      for (const auto& recompute : kRecomputed) {
        expect_one_process({.shape = {.tp = tp}, .args = uneven(qwen), .recompute = recompute},
                           fmt::format("tp {} qwen {}", tp, qwen));
      }
    }
  }
}

TEST(TensorOverlap, MixesEqualOneProcess) {
  for (const comm::MeshShape& shape :
       {comm::MeshShape{.dp_shard = 2, .tp = 2}, comm::MeshShape{.cp = 2, .tp = 2},
        comm::MeshShape{.dp_replicate = 2, .dp_shard = 2, .tp = 2},
        comm::MeshShape{.dp_shard = 2, .cp = 2, .tp = 2}}) {
    expect_one_process({.shape = shape,
                        .args = uneven(true),
                        .accumulation = 2,
                        .steps = 5,
                        .recompute = ops::Kept::kExpensive},
                       comm::describe(shape));
  }
}

// Schedules that split the backward pass put the weights' gradients off.
TEST(TensorOverlap, PipelinesEqualOneProcess) {
  for (const comm::MeshShape& shape :
       {comm::MeshShape{.pp = 2, .tp = 2}, comm::MeshShape{.pp = 2, .tp = 3},
        comm::MeshShape{.pp = 2, .dp_shard = 2, .tp = 2}}) {
    for (const char* schedule : {"1F1B", "InterleavedZeroBubble", "ZBVZeroBubble"}) {
      expect_one_process(
          {.shape = shape,
           .args = uneven(false),
           .global_batch = 16,
           .steps = 4,
           .recompute = schedule[0] == 'Z' ? std::optional(ops::Kept::kNothing) : std::nullopt,
           .schedule = schedule},
          fmt::format("{} {}", comm::describe(shape), schedule));
    }
  }
}

TEST(TensorOverlap, MovesTheBytesOfThePlainPath) {
  for (const auto& recompute : kRecomputed) {
    LayoutCase c{.shape = {.tp = 4}, .args = uneven(false), .steps = 1, .recompute = recompute};
    const auto plain = run_layout(c);
    c.overlap_tp = true;
    const auto taken_apart = run_layout(c);
    std::map<std::string, int64_t> before, after;
    for (const auto& [key, sum] : plain.traffic) before[key.first] += sum.bytes;
    for (const auto& [key, sum] : taken_apart.traffic) after[key.first] += sum.bytes;
    EXPECT_EQ(before, after);
    // Around the blocks a gather and a reduction are left as they were, both ways. The second run
    // of a block gathers twice more, and where nothing is kept reduces once more.
    const int64_t quarter = c.global_batch * c.seq_len / 4 * c.args.dim * 8 * 3;
    const int64_t again = !recompute ? 0 : *recompute == ops::Kept::kNothing ? 3 : 2;
    const auto sent = taken_apart.traffic.at({"tp", "send"});
    EXPECT_EQ(sent.bytes, (8 + again) * c.args.num_layers * quarter);
    EXPECT_EQ(sent.calls, (8 + again) * c.args.num_layers * 3);
    EXPECT_EQ(taken_apart.traffic.at({"tp", "all-gather"}).bytes, 2 * quarter);
    EXPECT_EQ(taken_apart.traffic.at({"tp", "reduce-scatter"}).bytes, 2 * quarter);
  }
}

// Rank 1 finds zeros in the message that it gets as number `lost`.
class Losing : public comm::WrappedBackend {
 public:
  Losing(c10::intrusive_ptr<c10d::Backend> inner, int lost)
      : WrappedBackend(std::move(inner)), lost_(lost) {}
  WorkPtr recv(Tensors& x, int from, int tag) override {
    auto work = WrappedBackend::recv(x, from, tag);
    if (getRank() != 1 || seen_++ != lost_) return work;
    return c10::make_intrusive<comm::WrappedWork>(work, [in = x[0]] {
      const at::NoGradGuard no_grad;
      at::Tensor(in).zero_();
    });
  }

 private:
  int lost_, seen_ = 0;
};

TEST(TensorOverlap, ALostMessageIsSeen) {
  LayoutCase c{.shape = {.tp = 3}, .args = uneven(false), .steps = 1};
  c.args.num_layers = 1;
  const auto expected = run_one_process(c);
  // One block: two gathers and two reductions each way, two messages each.
  for (int lost = 0; lost < 16; ++lost) {
    c.overlap_tp = true;
    c.decorate = [lost](auto inner, const auto&, const auto&) -> c10::intrusive_ptr<c10d::Backend> {
      return c10::make_intrusive<Losing>(inner, lost);
    };
    const auto d = difference(run_layout(c), expected);
    EXPECT_GT(std::max(d.gradient, d.loss), 1e-6) << "message " << lost;
  }
  c.decorate = nullptr;
  EXPECT_LE(difference(run_layout(c), expected).gradient, 1e-11);
}

}  // namespace
}  // namespace titan::train
