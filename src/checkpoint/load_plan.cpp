#include "checkpoint/load_plan.h"

#include <algorithm>

#include "base/error.h"

namespace titan::checkpoint {
namespace fs = std::filesystem;
namespace {

void want_parts(LoadPlan& plan, const std::vector<std::string>& excluded, bool model_only) {
  const auto wanted = [&](const char* part) {
    return std::find(excluded.begin(), excluded.end(), part) == excluded.end();
  };
  plan.model = wanted("model");
  if (model_only) return;
  plan.optimizer = wanted("optimizer");
  plan.lr_scheduler = wanted("lr_scheduler");
  plan.dataloader = wanted("dataloader");
  plan.train_state = wanted("train_state");
}

const char* described(StepKind kind) {
  return kind == StepKind::kHuggingFace ? "is a Hugging Face export" : "holds the model only";
}

std::string numbers_of(std::span<const StepInfo> steps) {
  std::vector<int64_t> numbers;
  for (const auto& step : steps) numbers.push_back(step.step);
  return numbers.empty() ? "none" : fmt::format("{}", fmt::join(numbers, ", "));
}

// True when the step holds all that `plan` wants of it.
bool suffices(const StepInfo& step, const LoadPlan& plan) {
  if (step.kind == StepKind::kHuggingFace) return false;
  return step.kind == StepKind::kFull || step.step == 0 || plan.model_only();
}

void take_step(LoadPlan& plan, const StepInfo& step, const config::Checkpoint& config) {
  plan = LoadPlan{.source = LoadPlan::Source::kStep,
                  .path = step.path,
                  .resumes = true,
                  .warnings = plan.warnings};
  want_parts(plan, config.exclude_from_loading, step.step == 0);
}

LoadPlan plan_resume(const config::Checkpoint& config, std::span<const StepInfo> steps) {
  LoadPlan plan;
  want_parts(plan, config.exclude_from_loading, false);
  if (config.initial_load_path || config.initial_load_in_hf) {
    plan.warnings.push_back(
        fmt::format("checkpoint.{} is without effect: the run resumes from {}",
                    config.initial_load_path ? "initial_load_path" : "initial_load_in_hf",
                    steps.front().path.parent_path().string()));
  }
  if (config.load_step >= 0) {
    const auto found = std::find_if(steps.begin(), steps.end(),
                                    [&](const auto& s) { return s.step == config.load_step; });
    if (found == steps.end()) {
      throw Error("[checkpoint] load_step is {}, the complete steps are {}", config.load_step,
                  numbers_of(steps));
    }
    if (!suffices(*found, plan)) {
      throw Error(
          "[checkpoint] {} {}, so no run can resume from it — give a new run's initial_load_path "
          "this folder",
          found->path.string(), described(found->kind));
    }
    take_step(plan, *found, config);
    return plan;
  }
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (suffices(*step, plan)) {
      take_step(plan, *step, config);
      return plan;
    }
    plan.warnings.push_back(fmt::format("{} {}; an earlier step is looked for", step->path.string(),
                                        described(step->kind)));
  }
  throw Error(
      "[checkpoint] no step in {} can be resumed from: {} {} — give a new dump_folder's run "
      "initial_load_path = it",
      steps.back().path.parent_path().string(), steps.back().path.filename().string(),
      described(steps.back().kind));
}

}  // namespace

LoadPlan plan_load(const config::Checkpoint& config, std::span<const StepInfo> steps,
                   const fs::path& hf_assets_path) {
  if (!steps.empty()) return plan_resume(config, steps);
  if (config.load_step >= 0) {
    throw Error("[checkpoint] load_step is {}, but the checkpoint folder holds no complete step",
                config.load_step);
  }
  if (config.initial_load_in_hf && !config.initial_load_model_only) {
    throw Error(
        "[checkpoint] initial_load_in_hf needs initial_load_model_only: Hugging Face files hold no "
        "optimizer state");
  }
  if (config.initial_load_path && config.initial_load_path->empty()) {
    throw Error(
        "[checkpoint] initial_load_path is empty — leave the key out or name a step folder");
  }
  LoadPlan plan;
  if (!config.initial_load_path && !config.initial_load_in_hf) return plan;
  plan.source =
      config.initial_load_in_hf ? LoadPlan::Source::kHuggingFace : LoadPlan::Source::kStep;
  plan.path = config.initial_load_path ? fs::path(*config.initial_load_path) : hf_assets_path;
  want_parts(plan, config.exclude_from_loading, config.initial_load_model_only);
  return plan;
}

}  // namespace titan::checkpoint
