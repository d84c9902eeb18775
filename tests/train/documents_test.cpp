// Packed documents: a sample with document masks is its documents one by one, every layout is one
// process, and a rank that forgets the documents is seen.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/loader.h"
#include "support/tiny_args.h"
#include "train/batches.h"
#include "train/layout_check.h"

namespace titan::train {
namespace {

using at::Tensor;

constexpr double kEqual = 1e-11;
constexpr DocumentRules kMask{.mask = true}, kReset{.reset_positions = true},
    kBoth{.mask = true, .reset_positions = true};

models::ModelArgs packed_args(bool normed = true) {
  auto args = normed ? models::tiny_qwen3() : models::tiny_llama3();
  args.num_layers = 4;
  args.vocab_size = 37;
  args.max_seq_len = 24;
  return args;
}

std::string name_of(const LayoutCase& c) {
  return fmt::format("{}, method {}, head-tail {}, {}, mask {}, reset {}", comm::describe(c.shape),
                     static_cast<int>(c.context_method), c.head_tail, c.schedule, c.documents.mask,
                     c.documents.reset_positions);
}

double farthest(const LayoutDifference& d) {
  return std::max({d.loss, d.norm, d.gradient, d.parameter});
}

// Two samples of 12 tokens and their documents: id, first token, number of tokens by sample.
struct Packed {
  Tensor inputs, labels, documents;
  std::vector<std::array<int64_t, 3>> parts;  // sample, first, count
};

Packed packed_samples() {
  const Tensor column = at::arange(12, at::kLong);
  const Tensor ids = (at::arange(2, at::kLong).unsqueeze(1) * 13 + column * 7 + 3).remainder(37);
  Packed p{ids, (ids + 5).remainder(37), at::zeros({2, 12}, at::kLong), {}};
  p.labels[0][4] = p.labels[1][0] = -100;
  for (const int64_t start : {5, 6}) p.documents[0].narrow(0, start, 12 - start).add_(1);
  for (const int64_t start : {1, 11}) p.documents[1].narrow(0, start, 12 - start).add_(1);
  p.parts = {{0, 0, 5}, {0, 5, 1}, {0, 6, 6}, {1, 0, 1}, {1, 1, 10}, {1, 11, 1}};
  return p;
}

struct OneStep {
  double loss = 0;
  std::vector<Tensor> gradients;
};

OneStep step_over(const std::vector<MicroBatch>& batches) {
  TrainingState state = assemble(
      packed_args(), {}, {.parameter_dtype = at::kDouble, .compute_dtype = at::kDouble, .seed = 3});
  state.inverse_valid_tokens.fill_(1.0 / 22);
  OneStep out;
  const auto result = train_step(state, batches, [&](std::span<const Tensor> gradients) {
    for (const auto& gradient : gradients) out.gradients.push_back(gradient.clone());
  });
  out.loss = result.loss.item<double>();
  return out;
}

double farthest(const OneStep& a, const OneStep& b) {
  double worst = std::abs(a.loss - b.loss) / std::abs(b.loss);
  for (size_t i = 0; i < b.gradients.size(); ++i) {
    const double off = (a.gradients[i] - b.gradients[i]).abs().max().item<double>();
    worst = std::max(worst, off / b.gradients[i].abs().max().item<double>());
  }
  return worst;
}

TEST(Documents, APackedSampleIsItsDocumentsOneByOne) {
  const Packed p = packed_samples();
  std::vector<MicroBatch> alone;
  for (const auto& [sample, first, count] : p.parts) {
    const auto cut = [&, s = sample, f = first, n = count](const Tensor& x) {
      return x.narrow(0, s, 1).narrow(1, f, n);
    };
    alone.push_back({cut(p.inputs), cut(p.labels)});
  }
  const auto expected = step_over(alone);
  const auto with = [&](const DocumentRules& rules) {
    return step_over({{p.inputs, p.labels, rules.places(p.documents)}});
  };
  EXPECT_LE(farthest(with(kBoth), expected), kEqual);
  // Distances alone turn queries and keys: counting on changes nothing inside a document.
  EXPECT_LE(farthest(with(kMask), expected), kEqual);
  EXPECT_GT(farthest(with({}), expected), 1e-3);
  EXPECT_GT(farthest(with(kReset), expected), 1e-3);
  Packed shifted = packed_samples();
  shifted.documents[0][5] = 0;  // one boundary is a token late
  EXPECT_GT(farthest(step_over({{p.inputs, p.labels, kBoth.places(shifted.documents)}}), expected),
            1e-3);
}

void expect_one_process(const LayoutCase& c) {
  const auto d = difference(run_layout(c), run_one_process(c));
  EXPECT_LE(farthest(d), kEqual) << name_of(c) << ": " << d.worst_gradient << ", "
                                 << d.worst_parameter;
}

TEST(Documents, DataAndTensorParallelEqualOneProcess) {
  for (const comm::MeshShape& shape :
       {comm::MeshShape{.dp_replicate = 2}, comm::MeshShape{.dp_shard = 2},
        comm::MeshShape{.tp = 2}, comm::MeshShape{.tp = 3},
        comm::MeshShape{.dp_shard = 2, .tp = 2}}) {
    for (const auto& rules : {kMask, kReset, kBoth}) {
      expect_one_process({.shape = shape,
                          .args = packed_args(shape.tp == 1),
                          .accumulation = 2,
                          .steps = 5,
                          .documents = rules,
                          .recompute = ops::Kept::kExpensive});
    }
  }
}

TEST(Documents, EveryMethodOfContextParallelEqualsOneProcess) {
  for (const auto method :
       {nn::ContextMethod::kAllGather, nn::ContextMethod::kRing, nn::ContextMethod::kUlysses}) {
    for (const bool head_tail : {true, false}) {
      for (const auto& rules : {kMask, kReset, kBoth}) {
        expect_one_process({.shape = {.cp = 2},
                            .args = packed_args(),
                            .steps = 5,
                            .documents = rules,
                            .recompute = head_tail ? ops::Kept::kExpensive : ops::Kept::kNothing,
                            .context_method = method,
                            .head_tail = head_tail});
      }
    }
    expect_one_process({.shape = {.cp = 4},
                        .args = packed_args(false),
                        .seq_len = 24,
                        .steps = 3,
                        .documents = kBoth,
                        .context_method = method});
  }
}

TEST(Documents, PipelinesEqualOneProcess) {
  for (const char* schedule : {"GPipe", "1F1B", "InterleavedZeroBubble", "ZBVZeroBubble"}) {
    for (const auto& rules : {kMask, kReset, kBoth}) {
      expect_one_process({.shape = {.pp = 2},
                          .args = packed_args(),
                          .steps = 5,
                          .documents = rules,
                          .schedule = schedule});
    }
  }
}

TEST(Documents, MixesEqualOneProcess) {
  for (const comm::MeshShape& shape :
       {comm::MeshShape{.cp = 2, .tp = 2}, comm::MeshShape{.pp = 2, .cp = 2},
        comm::MeshShape{.pp = 2, .tp = 2}, comm::MeshShape{.dp_shard = 2, .cp = 2},
        comm::MeshShape{.pp = 2, .dp_shard = 2}}) {
    for (const auto method :
         {nn::ContextMethod::kAllGather, nn::ContextMethod::kRing, nn::ContextMethod::kUlysses}) {
      if (shape.cp == 1 && method != nn::ContextMethod::kAllGather) continue;
      expect_one_process({.shape = shape,
                          .args = packed_args(),
                          .global_batch = 16,
                          .accumulation = 2,
                          .steps = 3,
                          .documents = kBoth,
                          .recompute = ops::Kept::kNothing,
                          .context_method = method});
    }
  }
}

// A rank that ignores the documents, or takes those of its neighbours in the batch.
TEST(Documents, ARankThatLosesThemIsSeen) {
  for (const comm::MeshShape& shape : {comm::MeshShape{.dp_shard = 2}, comm::MeshShape{.tp = 2},
                                       comm::MeshShape{.cp = 2}, comm::MeshShape{.pp = 2}}) {
    for (const auto method :
         {nn::ContextMethod::kAllGather, nn::ContextMethod::kRing, nn::ContextMethod::kUlysses}) {
      if (shape.cp == 1 && method != nn::ContextMethod::kAllGather) continue;
      LayoutCase c{.shape = shape,
                   .args = packed_args(),
                   .steps = 2,
                   .documents = kMask,
                   .context_method = method};
      const auto expected = run_one_process(c);
      EXPECT_LE(farthest(difference(run_layout(c), expected)), kEqual) << name_of(c);
      c.break_batch = [](MicroBatch& batch, int64_t rank) {
        if (rank == 1) batch.places.documents.reset();
      };
      // The ring's messages are the same with and without documents, so nothing hangs.
      EXPECT_GT(farthest(difference(run_layout(c), expected)), 1e-4) << name_of(c);
      c.break_batch = [](MicroBatch& batch, int64_t rank) {
        if (rank == 1) batch.places.documents = batch.places.documents.roll(1, 0);
      };
      EXPECT_GT(farthest(difference(run_layout(c), expected)), 1e-4) << name_of(c);
      c.break_batch = nullptr;
      c.documents = kReset;
      const auto counted = run_one_process(c);
      c.break_batch = [&](MicroBatch& batch, int64_t rank) {
        if (rank == 1) batch.places.positions.reset();
      };
      EXPECT_GT(farthest(difference(run_layout(c), counted)), 1e-4) << name_of(c);
    }
  }
}

TEST(Documents, RanksWithNothingToSeeGiveFiniteNumbers) {
  for (const auto method :
       {nn::ContextMethod::kAllGather, nn::ContextMethod::kRing, nn::ContextMethod::kUlysses}) {
    for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
      for (const bool head_tail : {true, false}) {
        LayoutCase c{.shape = {.cp = 2},
                     .args = packed_args(),
                     .parameter_dtype = dtype == at::kDouble ? at::kDouble : at::kFloat,
                     .compute_dtype = dtype,
                     .steps = 3,
                     .documents = kBoth,
                     .context_method = method,
                     .head_tail = head_tail};
        c.break_batch = [](MicroBatch& batch, int64_t) {
          const auto& ids = batch.places.documents;
          batch.places.documents = at::arange(ids.size(1), ids.options()).expand_as(ids);
        };
        const auto run = run_layout(c);
        for (size_t i = 0; i < run.losses.size(); ++i) {
          EXPECT_TRUE(std::isfinite(run.losses[i]) && std::isfinite(run.norms[i])) << name_of(c);
        }
        for (const auto& [name, gradient] : run.gradients) {
          EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << name << " " << name_of(c);
        }
      }
    }
  }
}

TEST(Documents, ABatchBringsWhatTheRulesAskFor) {
  const data::SampleBatch batch{.num_samples = 1,
                                .seq_len = 8,
                                .inputs = {1, 2, 3, 4, 5, 6, 7, 8},
                                .labels = {2, 3, 4, 5, 6, 7, 8, 9},
                                .documents = {0, 0, 0, 1, 2, 2, 2, 2},
                                .valid_tokens = 8};
  const auto values = [](const Tensor& x) {
    return std::vector<int64_t>(x.const_data_ptr<int64_t>(),
                                x.const_data_ptr<int64_t>() + x.numel());
  };
  const auto plain = to_device(batch, at::kCPU, {}, {});
  EXPECT_FALSE(plain.places.documents.defined() || plain.places.positions.defined());
  const auto both = to_device(batch, at::kCPU, {}, kBoth);
  EXPECT_EQ(values(both.places.documents), (std::vector<int64_t>{0, 0, 0, 1, 2, 2, 2, 2}));
  EXPECT_EQ(values(both.places.positions), (std::vector<int64_t>{0, 1, 2, 0, 0, 1, 2, 3}));
  EXPECT_FALSE(to_device(batch, at::kCPU, {}, kReset).places.documents.defined());
  const comm::ThreadWorld world(2);
  world.run([&](int64_t rank) {
    const auto context = std::make_shared<comm::RankContext>();
    const nn::ContextParallel cp{world.maker(rank, context)("cp", "cp", {0, 1}),
                                 nn::ContextMethod::kRing, true};
    const auto part = to_device(batch, at::kCPU, cp, kBoth);
    EXPECT_EQ(part.places.documents.size(1), 8);
    EXPECT_EQ(values(part.places.positions),
              rank == 0 ? (std::vector<int64_t>{0, 1, 2, 3}) : (std::vector<int64_t>{2, 0, 0, 1}));
    EXPECT_EQ(values(to_device(batch, at::kCPU, cp, kMask).places.positions),
              rank == 0 ? (std::vector<int64_t>{0, 1, 6, 7}) : (std::vector<int64_t>{2, 3, 4, 5}));
  });
}

}  // namespace
}  // namespace titan::train
