// Each axis and sharding policy equals one process, and moves and holds no more than it must.
#include <set>

#include "models/sharding.h"
#include "train/layout_cases.h"

namespace titan::train {
namespace {

models::ModelArgs with_vocab(models::ModelArgs args, int64_t vocab) {
  args.vocab_size = vocab;
  return args;
}

TEST(Layouts, DataParallelAxesEqualOneProcess) {
  for (const comm::MeshShape& shape :
       {comm::MeshShape{.dp_replicate = 2}, comm::MeshShape{.dp_shard = 2},
        comm::MeshShape{.dp_shard = 4}, comm::MeshShape{.dp_replicate = 2, .dp_shard = 2}}) {
    for (const bool tied : {false, true}) {
      auto args = models::tiny_llama3();
      args.tied = tied;
      expect_equal({.shape = shape, .args = args}, comm::describe(shape));
    }
  }
}

TEST(Layouts, EveryPolicyOfShardingEqualsOneProcess) {
  for (const auto reshard : {Reshard::kAlways, Reshard::kNever}) {
    for (const bool whole : {false, true}) {
      for (const auto recompute : {std::optional<ops::Kept>(), std::optional(ops::Kept::kNothing),
                                   std::optional(ops::Kept::kExpensive)}) {
        expect_equal({.shape = {.dp_replicate = 2, .dp_shard = 2},
                      .args = models::tiny_qwen3(),
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
    for (const auto& args : {with_vocab(models::tiny_llama3(), 41), models::tiny_qwen3()}) {
      for (const auto recompute : {std::optional<ops::Kept>(), std::optional(ops::Kept::kNothing),
                                   std::optional(ops::Kept::kExpensive)}) {
        expect_equal({.shape = {.tp = tp}, .args = args, .recompute = recompute},
                     fmt::format("tp {} {}", tp, args.family));
      }
    }
  }
}

TEST(Layouts, ContextParallelEqualsOneProcess) {
  for (const int64_t cp : {2, 3}) {
    for (const bool head_tail : {true, false}) {
      expect_equal({.shape = {.cp = cp},
                    .args = models::tiny_qwen3(),
                    .recompute = head_tail ? std::optional(ops::Kept::kExpensive) : std::nullopt,
                    .head_tail = head_tail},
                   fmt::format("cp {}", cp));
    }
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
  const auto args = models::tiny_llama3();
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
  models::ModelArgs args = with_vocab(models::tiny_llama3(), 1000);
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
  const auto args = models::tiny_llama3();
  const auto run =
      run_layout({.shape = {.dp_replicate = 2}, .args = args, .accumulation = 2, .steps = 1});
  int64_t bytes = 0;
  for (int64_t group = 0; group <= args.num_layers + 1; ++group) {
    bytes += chunk_bytes(args, group, 1);  // 2 (n - 1) / n of it
  }
  EXPECT_EQ(run.traffic.at({"dp_replicate", "all-reduce"}).bytes, bytes);
}

TEST(Layouts, TensorParallelMovesTheSequenceTwicePerHalfBlock) {
  const auto args = models::tiny_llama3();
  const LayoutCase c{.shape = {.tp = 2}, .args = args, .steps = 1};
  const auto run = run_layout(c);
  const int64_t half = c.global_batch * c.seq_len / 2 * args.dim * 8;
  // Forward: two gathers and two reduce-scatters a block, and one of each around the blocks;
  // backward: the other way round.
  EXPECT_EQ(run.traffic.at({"tp", "all-gather"}).bytes, (4 * args.num_layers + 2) * half);
  EXPECT_EQ(run.traffic.at({"tp", "reduce-scatter"}).bytes, (4 * args.num_layers + 2) * half);
}

}  // namespace
}  // namespace titan::train
