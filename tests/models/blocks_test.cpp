// Real models under every way of running them: recomputation, dtypes, causality, initialisation.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/tiny.h"
#include "ops/cross_entropy.h"
#include "ops/live_bytes.h"
#include "parallel/recompute_plan.h"
#include "parallel/single_device.h"
#include "support/tiny_args.h"

namespace titan::models {
namespace {

using parallel::RecomputePlan;

ModelArgs block_llama() {
  ModelArgs args = tiny_llama3();
  args.dim = 32;
  args.head_dim = 8;
  args.hidden_dim = 80;
  args.max_seq_len = 32;
  args.rope_theta = 500000;
  args.rope_scaling = RopeScaling{};
  return args;
}

ModelArgs block_qwen() {
  ModelArgs args = tiny_qwen3();
  args.dim = 24;
  args.head_dim = 16;
  args.hidden_dim = 72;
  args.max_seq_len = 32;
  args.norm_eps = 1e-6;
  args.rope_theta = 1e6;
  return args;
}

struct Outcome {
  at::Tensor loss;
  std::map<std::string, at::Tensor> gradients;
  int64_t held_bytes = 0;  // after the forward pass of the blocks
};

Outcome block_walk(const ModelArgs& args, at::ScalarType stored, at::ScalarType compute,
                   const RecomputePlan& plan) {
  ops::install_saved_tensor_hooks();
  const auto model = make_model(args, stored, at::kCPU, 3);
  parallel::SingleDeviceRunner runner(compute, plan);
  const auto batch = tiny_batch(3, 32, args.vocab_size, 1);
  Outcome outcome;
  model->hidden(batch.inputs, runner);  // makes the rotary tables
  const ops::LiveBytes bytes;
  const auto hidden = model->hidden(batch.inputs, runner);
  outcome.held_bytes = bytes.now();
  const auto scale =
      at::full({}, 1.0 / 90, at::TensorOptions(compute == at::kDouble ? at::kDouble : at::kFloat));
  const auto loss =
      ops::linear_cross_entropy(hidden.flatten(0, 1), runner.parameter(model->output_weight()),
                                batch.labels.flatten(), scale);
  loss.backward();
  outcome.loss = loss.detach();
  outcome.gradients = gradients_of(*model);
  return outcome;
}

RecomputePlan plan(const std::string& mode, const std::string& option = "2",
                   std::optional<double> ratio = std::nullopt, int64_t layers = 3) {
  config::ActivationCheckpoint config;
  config.mode = mode;
  config.selective_ac_option = option;
  config.checkpoint_ratio = ratio;
  return parallel::make_recompute_plan(config, layers);
}

TEST(RecomputedModel, IsBitEqualInEveryModeFamilyAndDtype) {
  for (const auto& args : {block_llama(), block_qwen()}) {
    for (const auto& [stored, compute] : {std::pair{at::kFloat, at::kFloat},
                                          {at::kFloat, at::kBFloat16},
                                          {at::kDouble, at::kDouble},
                                          {at::kBFloat16, at::kBFloat16},
                                          {at::kFloat, at::kHalf}}) {
      const Outcome kept = block_walk(args, stored, compute, {});
      EXPECT_TRUE(kept.loss.isfinite().item<bool>());
      const std::vector<std::pair<const char*, RecomputePlan>> plans = {
          {"full", plan("full")},
          {"op", plan("selective", "op")},
          {"every 2nd", plan("selective", "2")},
          {"ratio", plan("full", "2", 0.7)}};
      for (const auto& [name, p] : plans) {
        SCOPED_TRACE(testing::Message() << args.family << " " << compute << " " << name);
        const Outcome again = block_walk(args, stored, compute, p);
        EXPECT_TRUE(at::equal(again.loss, kept.loss));
        for (const auto& [parameter, gradient] : kept.gradients) {
          EXPECT_TRUE(at::equal(again.gradients.at(parameter), gradient)) << parameter;
        }
      }
    }
  }
}

TEST(RecomputedModel, HoldsLessTheMoreItRecomputes) {
  for (const auto& args : {block_llama(), block_qwen()}) {
    const int64_t none = block_walk(args, at::kFloat, at::kFloat, {}).held_bytes;
    const int64_t op = block_walk(args, at::kFloat, at::kFloat, plan("selective", "op")).held_bytes;
    const int64_t second =
        block_walk(args, at::kFloat, at::kFloat, plan("selective", "2")).held_bytes;
    const int64_t full = block_walk(args, at::kFloat, at::kFloat, plan("full")).held_bytes;
    EXPECT_LT(op, none * 9 / 10) << args.family;
    EXPECT_LT(second, none) << args.family;
    EXPECT_GT(second, full) << args.family;
    // Inputs of three blocks, the last norm's input, output and row statistics, the tokens.
    EXPECT_LE(full, 3 * 32 * (6 * args.dim + 4) * 4 + 4096) << args.family;
    EXPECT_LT(full, op) << args.family;
  }
}

TEST(RecomputePlan, NamesTheRightBlocks) {
  const auto marks = [](const RecomputePlan& p) {
    std::string out;
    for (const auto& entry : p) out += !entry ? '-' : *entry == ops::Kept::kNothing ? 'x' : 'o';
    return out;
  };
  EXPECT_EQ(marks(plan("none", "2", std::nullopt, 5)), "-----");
  EXPECT_EQ(marks(plan("full", "2", std::nullopt, 5)), "xxxxx");
  EXPECT_EQ(marks(plan("selective", "1", std::nullopt, 5)), "xxxxx");
  EXPECT_EQ(marks(plan("selective", "2", std::nullopt, 5)), "-x-x-");
  EXPECT_EQ(marks(plan("selective", "3", std::nullopt, 7)), "--x--x-");
  EXPECT_EQ(marks(plan("selective", "9", std::nullopt, 5)), "-----");
  EXPECT_EQ(marks(plan("selective", "op", std::nullopt, 3)), "ooo");
  EXPECT_EQ(marks(plan("full", "2", 0.5, 4)), "-x-x");
  EXPECT_EQ(marks(plan("full", "2", 0.0, 4)), "----");
  EXPECT_EQ(marks(plan("full", "2", 1.0, 4)), "xxxx");
  EXPECT_EQ(std::ranges::count(marks(plan("full", "2", 0.3, 10)), 'x'), 3);
  EXPECT_ANY_THROW(plan("selective", "0"));
  EXPECT_ANY_THROW(plan("selective", "two"));
}

TEST(DenseModel, SeesNothingOfTheFutureAndRowsDoNotMix) {
  for (const auto& args : {block_llama(), block_qwen()}) {
    const at::NoGradGuard no_grad;
    const auto model = make_model(args, at::kFloat, at::kCPU, 3);
    parallel::SingleDeviceRunner runner(at::kFloat);
    const auto tokens = tiny_batch(2, 20, args.vocab_size, 0).inputs;
    auto changed = tokens.clone();
    changed[1][11] = (changed[1][11].item<int64_t>() + 1) % args.vocab_size;
    const auto before = model->hidden(tokens, runner), after = model->hidden(changed, runner);
    EXPECT_TRUE(at::equal(before[0], after[0]));
    EXPECT_TRUE(at::allclose(before[1].narrow(0, 0, 11), after[1].narrow(0, 0, 11), 1e-5, 1e-6));
    EXPECT_FALSE(at::allclose(before[1][11], after[1][11], 1e-3, 1e-3));
    EXPECT_FALSE(at::allclose(before[1][19], after[1][19], 1e-6, 1e-6));
  }
}

TEST(DenseModel, StartsByTheRulesOfItsFamily) {
  ModelArgs args = block_llama();
  args.dim = 128;
  args.hidden_dim = 256;
  args.vocab_size = 500;
  const auto deviation = [](const at::Tensor& x) { return x.std().item<double>(); };
  const auto model = make_model(args, at::kFloat, at::kCPU, 1);
  model->visit([&](const std::string& name, at::Tensor& p, const nn::Init&) {
    EXPECT_TRUE(p.requires_grad() && p.is_leaf()) << name;
    if (name.find("norm") != std::string::npos) {
      EXPECT_TRUE(at::equal(p.detach(), at::ones_like(p))) << name;
    } else if (name == "tok_embeddings.weight") {
      EXPECT_NEAR(deviation(p), 1, 0.02);
    } else if (name == "output.weight") {
      EXPECT_NEAR(deviation(p), 0.98658 / std::sqrt(128.0), 0.002);
      EXPECT_LE(p.abs().max().item<double>(), 3 / std::sqrt(128.0));
    } else {
      const int layer = name[7] - '0';
      const bool deep = name.find("wo") != std::string::npos ||
                        name.find("w2") != std::string::npos ||
                        name.find("w3") != std::string::npos;
      const double expected = deep ? 0.02 / std::sqrt(2.0 * (layer + 1)) : 0.02;
      EXPECT_NEAR(deviation(p) / expected, 1, 0.05) << name;
    }
  });
  // Tied: the embedding starts as the output projection does.
  const auto tied = make_model(block_qwen(), at::kFloat, at::kCPU, 1);
  EXPECT_LE(tied->output_weight().abs().max().item<double>(), 3 / std::sqrt(24.0));
  tied->visit([&](const std::string& name, at::Tensor&, const nn::Init&) {
    EXPECT_NE(name, "output.weight");
  });
}

TEST(DenseModel, IsTheSameForOneSeedAndAnotherForAnother) {
  const auto first = [](uint64_t seed, at::ScalarType dtype) {
    return make_model(block_llama(), dtype, at::kCPU, seed)->output_weight().detach().clone();
  };
  EXPECT_TRUE(at::equal(first(5, at::kFloat), first(5, at::kFloat)));
  EXPECT_FALSE(at::equal(first(5, at::kFloat), first(6, at::kFloat)));
  EXPECT_TRUE(at::equal(first(5, at::kBFloat16), first(5, at::kFloat).to(at::kBFloat16)));
}

}  // namespace
}  // namespace titan::models
