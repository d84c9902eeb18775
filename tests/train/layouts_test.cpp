// Every layout equals one process: loss, norm, every gradient of step 1, every parameter after the
// last step; and a mistake in any collective is seen.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "models/sharding.h"
#include "train/layout_check.h"

namespace titan::train {
namespace {

models::ModelArgs llama(int64_t vocab = 40, bool tied = false) {
  return {.family = "llama3",
          .flavor = "tiny",
          .dim = 16,
          .num_layers = 3,
          .num_heads = 4,
          .num_kv_heads = 2,
          .head_dim = 6,
          .hidden_dim = 26,
          .vocab_size = vocab,
          .max_seq_len = 12,
          .rope_theta = 10000,
          .tied = tied};
}

models::ModelArgs qwen() {
  auto args = llama(37, true);
  args.family = "qwen3";
  args.rope_style = models::RopeStyle::kHalves;
  args.qk_norm = true;
  return args;
}

constexpr double kDouble = 1e-11, kSingle = 1e-6;

void expect_equal(const LayoutCase& c, const char* what) {
  const auto d = difference(run_layout(c), run_one_process(c));
  const bool wide = c.compute_dtype == at::kDouble;
  EXPECT_LE(d.loss, wide ? kDouble : kSingle) << what;
  EXPECT_LE(d.norm, wide ? kDouble : 10 * kSingle) << what;
  EXPECT_LE(d.gradient, wide ? kDouble : 1e-4) << what << ": " << d.worst_gradient;
  EXPECT_LE(d.parameter, wide ? kDouble : 1e-3) << what << ": " << d.worst_parameter;
}

std::string text_of(const comm::MeshShape& shape) { return comm::describe(shape); }

TEST(Layouts, DataParallelAxesEqualOneProcess) {
  for (const comm::MeshShape& shape :
       {comm::MeshShape{.dp_replicate = 2}, comm::MeshShape{.dp_shard = 2},
        comm::MeshShape{.dp_shard = 4}, comm::MeshShape{.dp_replicate = 2, .dp_shard = 2}}) {
    for (const bool tied : {false, true}) {
      expect_equal({.shape = shape, .args = llama(40, tied)}, text_of(shape).c_str());
    }
  }
}

TEST(Layouts, EveryPolicyOfShardingEqualsOneProcess) {
  for (const auto reshard : {Reshard::kAlways, Reshard::kNever}) {
    for (const bool whole : {false, true}) {
      for (const auto recompute : {std::optional<ops::Kept>(), std::optional(ops::Kept::kNothing),
                                   std::optional(ops::Kept::kExpensive)}) {
        expect_equal({.shape = {.dp_replicate = 2, .dp_shard = 2},
                      .args = qwen(),
                      .accumulation = 2,
                      .steps = 3,
                      .reshard = reshard,
                      .whole_gradients = whole,
                      .recompute = recompute},
                     "policy");
      }
    }
  }
}

TEST(Layouts, TensorParallelEqualsOneProcess) {
  for (const int64_t tp : {2, 3, 4}) {
    for (const auto& args : {llama(41), qwen()}) {
      for (const auto recompute : {std::optional<ops::Kept>(), std::optional(ops::Kept::kNothing),
                                   std::optional(ops::Kept::kExpensive)}) {
        expect_equal({.shape = {.tp = tp}, .args = args, .recompute = recompute},
                     fmt::format("tp {} {}", tp, args.family).c_str());
      }
    }
  }
}

TEST(Layouts, ContextParallelEqualsOneProcess) {
  for (const int64_t cp : {2, 3}) {
    for (const bool head_tail : {true, false}) {
      expect_equal({.shape = {.cp = cp},
                    .args = qwen(),
                    .recompute = head_tail ? std::optional(ops::Kept::kExpensive) : std::nullopt,
                    .head_tail = head_tail},
                   fmt::format("cp {}", cp).c_str());
    }
  }
}

models::ModelArgs deep(models::ModelArgs args) {
  args.num_layers = 4;
  return args;
}

TEST(Layouts, EveryPipelineScheduleEqualsOneProcess) {
  for (const char* schedule : {"GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS",
                               "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"}) {
    for (const bool tied : {false, true}) {
      expect_equal({.shape = {.pp = 2},
                    .args = deep(tied ? qwen() : llama()),
                    .steps = 10,
                    .recompute = tied ? std::optional(ops::Kept::kNothing) : std::nullopt,
                    .schedule = schedule},
                   schedule);
    }
  }
}

TEST(Layouts, PipelinesMixWithEveryAxis) {
  for (const comm::MeshShape& shape :
       {comm::MeshShape{.pp = 2, .dp_replicate = 2}, comm::MeshShape{.pp = 2, .dp_shard = 2},
        comm::MeshShape{.pp = 2, .cp = 2}, comm::MeshShape{.pp = 2, .tp = 2},
        comm::MeshShape{.pp = 2, .dp_shard = 2, .tp = 2},
        comm::MeshShape{.pp = 2, .dp_replicate = 2, .dp_shard = 2}, comm::MeshShape{.pp = 4}}) {
    for (const char* schedule : {"1F1B", "InterleavedZeroBubble"}) {
      if (shape.pp == 4 && schedule[0] == 'I') continue;
      expect_equal({.shape = shape,
                    .args = deep(qwen()),
                    .global_batch = 16,
                    .accumulation = 2,
                    .steps = 4,
                    .recompute = ops::Kept::kExpensive,
                    .schedule = schedule},
                   fmt::format("{} {}", text_of(shape), schedule).c_str());
    }
  }
}

TEST(Layouts, MixesEqualOneProcess) {
  for (const comm::MeshShape& shape :
       {comm::MeshShape{.dp_shard = 2, .tp = 2}, comm::MeshShape{.dp_replicate = 2, .tp = 2},
        comm::MeshShape{.dp_replicate = 2, .dp_shard = 2, .tp = 2}}) {
    expect_equal(
        {.shape = shape, .args = qwen(), .accumulation = 2, .recompute = ops::Kept::kNothing},
        text_of(shape).c_str());
  }
}

TEST(Layouts, SinglePrecisionKeepsTheLoss) {
  for (const comm::MeshShape& shape : {comm::MeshShape{.dp_shard = 4}, comm::MeshShape{.tp = 2},
                                       comm::MeshShape{.dp_shard = 2, .tp = 2}}) {
    expect_equal({.shape = shape,
                  .args = llama(),
                  .parameter_dtype = at::kFloat,
                  .compute_dtype = at::kFloat},
                 text_of(shape).c_str());
  }
}

// Bytes of the parameters of one group as they travel: chunks of rows, padded to the longest.
int64_t chunk_bytes(const models::ModelArgs& args, int64_t group, int64_t ranks) {
  int64_t bytes = 0;
  for (const auto& [name, shape] : models::parameter_shapes(args)) {
    if (models::group_of(args, name) != group) continue;
    const int64_t row = shape.size() > 1 ? shape[1] : 1;
    bytes += (shape[0] + ranks - 1) / ranks * row * 8;
  }
  return bytes;
}

TEST(Layouts, ShardingMovesTheTextbookMinimum) {
  const auto args = llama();
  const int64_t n = 4;
  const auto run = run_layout({.shape = {.dp_shard = n}, .args = args, .steps = 1});
  // Blocks are gathered for the forward and for the backward pass; the embedding has no use in the
  // backward pass, and the output stays between the two.
  int64_t gathered = 0, reduced = 0;
  for (int64_t group = 0; group <= args.num_layers + 1; ++group) {
    const bool block = group > 0 && group <= args.num_layers;
    gathered += (block ? 2 : 1) * (n - 1) * chunk_bytes(args, group, n);
    reduced += (n - 1) * chunk_bytes(args, group, n);
  }
  EXPECT_EQ(run.traffic.at({"fsdp", "all-gather"}).bytes, gathered);
  EXPECT_EQ(run.traffic.at({"fsdp", "reduce-scatter"}).bytes, reduced);
  EXPECT_EQ(run.traffic.at({"fsdp", "all-gather"}).calls, 2 * args.num_layers + 2);

  // Kept whole: one gather and, with whole gradients, one reduction for all micro-batches.
  const auto kept = run_layout({.shape = {.dp_shard = n},
                                .args = args,
                                .accumulation = 2,
                                .steps = 1,
                                .reshard = Reshard::kNever,
                                .whole_gradients = true});
  EXPECT_EQ(kept.traffic.at({"fsdp", "all-gather"}).bytes, reduced);
  EXPECT_EQ(kept.traffic.at({"fsdp", "reduce-scatter"}).bytes, reduced);
}

// Parameters, gradients and both moments of one rank.
TEST(Layouts, ShardsAreOneOverNOfTheMemory) {
  models::ModelArgs args = llama(1000);
  args.dim = 96;
  args.hidden_dim = 200;
  int64_t whole = 0;
  for (const auto& [name, shape] : models::parameter_shapes(args)) {
    whole += comm::Box::whole(shape).numel();
  }
  for (const int64_t n : {2, 4, 8}) {
    const comm::ThreadWorld world(n);
    world.run([&](int64_t rank) {
      const auto context = std::make_shared<comm::RankContext>();
      const auto maker = world.maker(rank, context);
      const auto mesh = comm::make_mesh({.dp_shard = n}, rank, maker, maker, context);
      const auto state = assemble(args, mesh, {.seed = 1});
      int64_t parameters = 0, moments = 0;
      std::set<const void*> masters;
      state.visit([&](const std::string&, at::Tensor& parameter, const nn::Init&) {
        if (masters.insert(parameter.storage().unsafeGetStorageImpl()).second) {
          parameters += static_cast<int64_t>(parameter.storage().nbytes());
        }
      });
      state.optimizer->visit_state([&](const std::string&, at::Tensor& tensor) {
        if (tensor.dim() > 0) moments += static_cast<int64_t>(tensor.nbytes());
      });
      // The gradients of a step lie in a buffer like the master's.
      const double share = static_cast<double>(2 * parameters + moments) / (4.0 * 4.0 * whole);
      EXPECT_LE(share * n, 1.05) << n << " ranks, rank " << rank;
    });
  }
}

TEST(Layouts, ReplicasMoveEachGradientOnceAStep) {
  const auto args = llama();
  const auto run =
      run_layout({.shape = {.dp_replicate = 2}, .args = args, .accumulation = 2, .steps = 1});
  int64_t bytes = 0;
  for (int64_t group = 0; group <= args.num_layers + 1; ++group) {
    bytes += chunk_bytes(args, group, 1);  // 2 (n - 1) / n of it
  }
  EXPECT_EQ(run.traffic.at({"dp_replicate", "all-reduce"}).bytes, bytes);
}

TEST(Layouts, TensorParallelMovesTheSequenceTwicePerHalfBlock) {
  const auto args = llama();
  const LayoutCase c{.shape = {.tp = 2}, .args = args, .steps = 1};
  const auto run = run_layout(c);
  const int64_t half = c.global_batch * c.seq_len / 2 * args.dim * 8;
  // Forward: two gathers and two reduce-scatters a block, and one of each around the blocks;
  // backward: the other way round.
  EXPECT_EQ(run.traffic.at({"tp", "all-gather"}).bytes, (4 * args.num_layers + 2) * half);
  EXPECT_EQ(run.traffic.at({"tp", "reduce-scatter"}).bytes, (4 * args.num_layers + 2) * half);
}

// What a missing sum, a wrong divisor or a rank's own idea of a gradient would look like.
TEST(Layouts, MistakesAreSeen) {
  for (const comm::MeshShape& shape :
       {comm::MeshShape{.dp_shard = 2, .tp = 2}, comm::MeshShape{.dp_replicate = 2},
        comm::MeshShape{.cp = 2}, comm::MeshShape{.pp = 2}}) {
    const LayoutCase good{.shape = shape, .args = deep(llama()), .steps = 3};
    const auto expected = run_one_process(good);
    EXPECT_LE(difference(run_layout(good), expected).gradient, kDouble) << text_of(shape);
    // Every parameter in the first layout, some in the others.
    const size_t stride = shape.tp > 1 ? 1 : 7;
    for (size_t i = 0; i < expected.gradients.size(); i += stride) {
      LayoutCase broken = good;
      bool met = true;
      broken.break_gradients = [&, i](TrainingState& state, int64_t rank) {
        if (rank != 1) return;
        const auto gradients = state.optimizer->gradients();
        met = i < gradients.size();
        if (met) gradients[i].zero_();
      };
      const auto d = difference(run_layout(broken), expected);
      // A replica that goes its own way shows in the others' next steps only.
      if (met) {
        EXPECT_GT(std::max({d.gradient, d.parameter, d.loss}), 100 * kDouble)
            << text_of(shape) << ": parameter " << i;
      }
    }
  }
}

}  // namespace
}  // namespace titan::train
