// Every layout equals one process: loss, norm, every gradient of step 1, every parameter after the
// last step; and a mistake in any collective is seen.
#include "train/layouts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

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
  LayoutCase one = c;
  one.shape = {};
  one.accumulation = 1;
  one.recompute.reset();
  const auto d = difference(run_layout(c), run_layout(one));
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

// What a missing sum, a wrong divisor or a rank's own idea of a gradient would look like.
TEST(Layouts, MistakesAreSeen) {
  for (const comm::MeshShape& shape :
       {comm::MeshShape{.dp_shard = 2, .tp = 2}, comm::MeshShape{.dp_replicate = 2},
        comm::MeshShape{.cp = 2}, comm::MeshShape{.pp = 2}}) {
    const LayoutCase good{.shape = shape, .args = deep(llama()), .steps = 3};
    LayoutCase one = good;
    one.shape = {};
    const auto expected = run_layout(one);
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
