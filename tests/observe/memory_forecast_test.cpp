#include "observe/memory_forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace titan::observe {
namespace {

MemoryPlan small_plan() {
  return {.parameters = 1000,
          .tokens = 10,
          .num_layers = 4,
          .dim = 8,
          .num_heads = 2,
          .num_kv_heads = 1,
          .head_dim = 4,
          .hidden_dim = 16,
          .vocab_size = 100};
}

TEST(MemoryForecast, CountsParametersGradientsAndStates) {
  const MemoryForecast forecast = forecast_memory(small_plan());
  EXPECT_EQ(forecast.parameters, 4000);
  EXPECT_EQ(forecast.gradients, 4000);
  EXPECT_EQ(forecast.optimizer, 8000);
  EXPECT_EQ(forecast.total(), forecast.parameters + forecast.gradients + forecast.optimizer +
                                  forecast.activations + forecast.loss);
}

TEST(MemoryForecast, MixedPrecisionKeepsACopyAndHalvesActivations) {
  MemoryPlan plan = small_plan();
  const MemoryForecast full = forecast_memory(plan);
  plan.compute_bytes = 2;
  const MemoryForecast mixed = forecast_memory(plan);
  EXPECT_EQ(mixed.parameters, 6000);
  EXPECT_EQ(mixed.gradients, 4000);
  EXPECT_EQ(2 * mixed.activations, full.activations);
}

TEST(MemoryForecast, ActivationsGrowWithTokensAndLayers) {
  MemoryPlan plan = small_plan();
  // Per token and block: 2*8 + 2*8 + 2*1*4 + 2*8 + 3*16 = 104 values.
  EXPECT_EQ(kept_values_per_token(plan), 104);
  EXPECT_EQ(forecast_memory(plan).activations, 10 * (4 * 104 + 3 * 8) * 4);
  plan.tokens *= 3;
  EXPECT_EQ(forecast_memory(plan).activations, 30 * (4 * 104 + 3 * 8) * 4);
}

TEST(MemoryForecast, RecomputedBlocksKeepTheirInputOnly) {
  MemoryPlan plan = small_plan();
  plan.recomputed_layers = 4;
  EXPECT_EQ(forecast_memory(plan).activations, 10 * (104 + 4 * 8 + 3 * 8) * 4);
  plan.recomputed_layers = 2;
  EXPECT_EQ(forecast_memory(plan).activations, 10 * (3 * 104 + 2 * 8 + 3 * 8) * 4);
}

TEST(MemoryForecast, ChunkedLossNeedsOneChunk) {
  MemoryPlan plan = small_plan();
  EXPECT_EQ(forecast_memory(plan).loss, 10 * 100 * 8);
  plan.loss_chunk_tokens = 2;
  EXPECT_EQ(forecast_memory(plan).loss, 2 * 100 * 8);
  plan.loss_chunk_tokens = 1000;
  EXPECT_EQ(forecast_memory(plan).loss, 10 * 100 * 8);
}

TEST(MemoryForecast, SaysItInOneLine) {
  const MemoryForecast forecast = {.parameters = 1 << 20,
                                   .gradients = 1 << 20,
                                   .optimizer = 2 << 20,
                                   .activations = 3 << 20,
                                   .loss = 1 << 20};
  EXPECT_EQ(describe(forecast, 16 << 20),
            "8.0 MiB of 16.0 MiB (50%): parameters 1.0 MiB, gradients 1.0 MiB, optimizer 2.0 MiB, "
            "activations 3.0 MiB, "
            "loss 1.0 MiB");
  EXPECT_THAT(describe(forecast, 0), testing::StartsWith("8.0 MiB: parameters"));
}

TEST(MemoryForecast, WarnsWithWhatWouldHelp) {
  MemoryForecast forecast = {
      .parameters = 100, .gradients = 100, .optimizer = 200, .activations = 1000, .loss = 0};
  EXPECT_EQ(memory_warning(forecast, 1400), std::nullopt);
  EXPECT_EQ(memory_warning(forecast, 0), std::nullopt);
  EXPECT_THAT(*memory_warning(forecast, 1399), testing::HasSubstr("training.local_batch_size"));
  EXPECT_THAT(*memory_warning(forecast, 300), testing::HasSubstr("smaller model"));
}

}  // namespace
}  // namespace titan::observe
