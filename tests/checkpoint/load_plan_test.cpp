#include "checkpoint/load_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace titan::checkpoint {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using Source = LoadPlan::Source;

StepInfo step(int64_t number, StepKind kind = StepKind::kFull) {
  return {number, std::filesystem::path("run/checkpoint") / step_name(number), kind};
}

TEST(LoadPlan, NothingOnDiskAndNothingAskedStartsFromTheSeed) {
  EXPECT_EQ(plan_load({}, {}, "assets").source, Source::kNothing);
}

TEST(LoadPlan, TheNewestStepOfTheRunGivesEverything) {
  const std::vector<StepInfo> steps{step(0), step(9), step(100)};
  const auto plan = plan_load({}, steps, "assets");
  EXPECT_EQ(plan.source, Source::kStep);
  EXPECT_EQ(plan.path, "run/checkpoint/step-100");
  EXPECT_TRUE(plan.resumes && plan.model && plan.optimizer && plan.lr_scheduler &&
              plan.dataloader && plan.train_state);
  EXPECT_THAT(plan.warnings, IsEmpty());
}

TEST(LoadPlan, LoadStepIsTakenOrRefusedWithTheStepsThereAre) {
  const std::vector<StepInfo> steps{step(10), step(20), step(30, StepKind::kModelOnly)};
  config::Checkpoint config;
  config.load_step = 10;
  EXPECT_EQ(plan_load(config, steps, "").path, "run/checkpoint/step-10");
  config.load_step = 15;
  EXPECT_THAT(
      [&] { plan_load(config, steps, ""); },
      ThrowsMessage<Error>(HasSubstr("load_step is 15, the complete steps are 10, 20, 30")));
  config.load_step = 30;
  EXPECT_THAT([&] { plan_load(config, steps, ""); },
              ThrowsMessage<Error>(HasSubstr("step-30 holds the model only")));
  EXPECT_THAT([&] { plan_load(config, {}, ""); },
              ThrowsMessage<Error>(HasSubstr("holds no complete step")));
}

TEST(LoadPlan, StepZeroIsASeedAndGivesTheModelOnly) {
  const std::vector<StepInfo> steps{step(0, StepKind::kModelOnly)};
  const auto plan = plan_load({}, steps, "");
  EXPECT_EQ(plan.path, "run/checkpoint/step-0");
  EXPECT_TRUE(plan.model);
  EXPECT_TRUE(plan.model_only());
}

TEST(LoadPlan, ModelOnlyLastSaveIsPassedOverWithAWarning) {
  const std::vector<StepInfo> steps{step(500), step(900, StepKind::kModelOnly),
                                    step(1000, StepKind::kHuggingFace)};
  const auto plan = plan_load({}, steps, "");
  EXPECT_EQ(plan.path, "run/checkpoint/step-500");
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("step-1000 is a Hugging Face export"),
                                         HasSubstr("step-900 holds the model only")));
  EXPECT_THAT([&] { plan_load({}, std::span(steps).subspan(1), ""); },
              ThrowsMessage<Error>(HasSubstr("no step in run/checkpoint can be resumed from")));
}

TEST(LoadPlan, ExclusionsCanMakeAModelOnlyStepEnough) {
  const std::vector<StepInfo> steps{step(500), step(900, StepKind::kModelOnly)};
  config::Checkpoint config;
  config.exclude_from_loading = {"optimizer", "lr_scheduler", "dataloader", "train_state"};
  const auto plan = plan_load(config, steps, "");
  EXPECT_EQ(plan.path, "run/checkpoint/step-900");
  EXPECT_TRUE(plan.model && plan.model_only());
  config.exclude_from_loading = {"dataloader"};
  const auto resumed = plan_load(config, steps, "");
  EXPECT_EQ(resumed.path, "run/checkpoint/step-500");
  EXPECT_TRUE(resumed.optimizer && resumed.train_state && !resumed.dataloader);
}

TEST(LoadPlan, InitialLoadGivesTheModelUnlessAskedForMore) {
  config::Checkpoint config;
  config.initial_load_path = "other/checkpoint/step-7";
  auto plan = plan_load(config, {}, "assets");
  EXPECT_EQ(plan.source, Source::kStep);
  EXPECT_EQ(plan.path, "other/checkpoint/step-7");
  EXPECT_TRUE(plan.model && plan.model_only() && !plan.resumes);
  config.initial_load_model_only = false;
  config.exclude_from_loading = {"lr_scheduler"};
  plan = plan_load(config, {}, "assets");
  EXPECT_TRUE(plan.optimizer && plan.dataloader && plan.train_state && !plan.lr_scheduler &&
              !plan.resumes);
}

TEST(LoadPlan, InitialLoadIsWithoutEffectOnceTheRunHasAStep) {
  const std::vector<StepInfo> steps{step(3)};
  config::Checkpoint config;
  config.initial_load_path = "other";
  const auto plan = plan_load(config, steps, "");
  EXPECT_EQ(plan.path, "run/checkpoint/step-3");
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("initial_load_path is without effect")));
}

TEST(LoadPlan, HuggingFaceComesFromTheAssetsFolderOrThePath) {
  config::Checkpoint config;
  config.initial_load_in_hf = true;
  EXPECT_EQ(plan_load(config, {}, "assets").path, "assets");
  EXPECT_EQ(plan_load(config, {}, "assets").source, Source::kHuggingFace);
  config.initial_load_path = "hub/llama";
  EXPECT_EQ(plan_load(config, {}, "assets").path, "hub/llama");
  config.initial_load_model_only = false;
  EXPECT_THAT([&] { plan_load(config, {}, ""); },
              ThrowsMessage<Error>(HasSubstr("needs initial_load_model_only")));
}

}  // namespace
}  // namespace titan::checkpoint
