#include "observe/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace titan::observe {
namespace {

StartupFacts startup_facts() {
  return {.device_kind = "cpu",
          .device_name = "AMD EPYC",
          .device_memory = int64_t{24} << 30,
          .threads = 2,
          .model = "llama3",
          .flavor = "debugmodel",
          .parameters = 6163712,
          .flops = {.matrices = 33836544, .attention = 37748736},
          .peak_flops = 1.9e11,
          .peak_flops_source = "measured",
          .memory = {.parameters = 1 << 20},
          .local_batch_size = 8,
          .global_batch_size = 32,
          .accumulation_steps = 4,
          .seq_len = 2048,
          .total_steps = 10,
          .warmup_steps = 2};
}

TEST(StartupSummary, SaysDeviceModelFlopsMemoryAndBatch) {
  EXPECT_THAT(
      startup_summary(startup_facts()),
      testing::ElementsAre("CPU capacity: AMD EPYC with 24.00GiB memory, 2 threads",
                           "Model llama3 debugmodel size: 6,163,712 total parameters",
                           "FLOPs per token: 7.159e+07 forward and backward (53% attention)",
                           "Peak FLOPS used for computing MFU: 1.900e+11 (measured)",
                           "Memory forecast: 1.0 MiB of 24.0 GiB (0%): parameters 1.0 MiB, "
                           "gradients 0 B, optimizer 0 B, "
                           "activations 0 B, loss 0 B",
                           "Trainer is initialized with local batch size 8, global batch size 32, "
                           "gradient accumulation steps 4, "
                           "sequence length 2048, total steps 10 (warmup 2)",
                           "Training starts at step 1"));
}

TEST(StartupSummary, UsesTorchTitansWordsForAGpuAndLeavesAnUnknownPeakOut) {
  StartupFacts facts = startup_facts();
  facts.device_kind = "cuda";
  facts.device_name = "NVIDIA H200";
  facts.peak_flops = 0;
  facts.first_step = 6;
  const auto lines = startup_summary(facts);
  EXPECT_EQ(lines.front(), "CUDA capacity: NVIDIA H200 with 24.00GiB memory");
  EXPECT_EQ(lines.back(), "Training starts at step 6");
  EXPECT_THAT(lines, testing::Not(testing::Contains(testing::HasSubstr("Peak FLOPS"))));
}

FinalFacts final_facts() {
  FinalFacts facts;
  facts.record.status = RunStatus::kFinished;
  facts.record.last_step = 2400;
  facts.record.tokens_seen = 2457600;
  facts.record.loss = 3.51231;
  facts.record.first_val_loss = 7.6442;
  facts.record.val_loss = 3.5964;
  facts.record.val_bits_per_byte = 2.1031;
  facts.record.average_tokens_per_second = 13374.4;
  facts.record.peak_flops = 2e11;
  facts.record.flops_per_token = 4e6;
  facts.record.peak_memory = int64_t{600} << 20;
  facts.record.checkpoint_folder = "outputs/checkpoint/step-2400";
  facts.process_s = 185.2;
  facts.startup_s = 0.8;
  facts.training_s = 184.2;
  facts.run_folder = "outputs";
  facts.metrics_file = "outputs/metrics.jsonl";
  return facts;
}

TEST(FinalSummary, SaysTimeRateLossesAndPlaces) {
  EXPECT_THAT(final_summary(final_facts()),
              testing::ElementsAre(
                  "2,400 steps in 3m05s (start-up 0.80s, training 3m04s); 2,457,600 tokens seen",
                  "Average: 13,374 tokens/s per device, mfu 26.75%, peak memory 600.0 MiB",
                  "Final loss: 3.5123  validation loss: 7.6442 -> 3.5964 (47% of its start)  "
                  "bits per byte: 2.1031",
                  "Metrics: outputs/metrics.jsonl", "Checkpoint: outputs/checkpoint/step-2400",
                  "Report: titan report outputs", "Training completed"));
}

TEST(FinalSummary, SaysWhatIsNotKnownAndHowItEnded) {
  FinalFacts facts = final_facts();
  facts.record.average_tokens_per_second = kUnknown;
  facts.record.val_loss.reset();
  facts.record.status = RunStatus::kInterrupted;
  facts.record.sessions = 2;
  facts.first_step = 2001;
  const auto lines = final_summary(facts);
  EXPECT_EQ(lines[0],
            "400 steps in 3m05s (start-up 0.80s, training 3m04s); session 2 of this run; 2,457,600 "
            "tokens seen");
  EXPECT_EQ(lines[1], "Average: too few steps to tell");
  EXPECT_EQ(lines[2], "Final loss: 3.5123");
  EXPECT_EQ(lines.back(), "Training stopped by a signal after step 2400");
}

}  // namespace
}  // namespace titan::observe
