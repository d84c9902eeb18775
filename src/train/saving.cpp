#include "train/saving.h"

#include <ATen/core/grad_mode.h>

#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/dtype.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/load_plan.h"
#include "checkpoint/store.h"
#include "models/hf.h"
#include "models/hf_config.h"
#include "models/model.h"
#include "train/gathering.h"

namespace titan::train {
namespace {

// Names like those of `tensors` (parameters, or optimizer states) that other pipeline stages load.
std::set<std::string> names_elsewhere(const TrainingState& state,
                                      const std::vector<checkpoint::NamedTensor>& tensors) {
  std::set<std::string> elsewhere;
  if (!state.pipeline) return elsewhere;
  const std::string& first = state.placements.front().name;
  for (const auto& tensor : tensors) {
    if (!tensor.name.ends_with(first)) continue;
    const std::string prefix = tensor.name.substr(0, tensor.name.size() - first.size());
    for (const auto& [name, shape] : models::parameter_shapes(state.args())) {
      elsewhere.insert(prefix + name);
    }
  }
  for (const auto& tensor : tensors) elsewhere.erase(tensor.name);
  return elsewhere;
}

void load_step(const checkpoint::LoadPlan& plan, Job& job) {
  const checkpoint::Step step(plan.path);
  checkpoint::LoadOptions options{.allow_cast = !plan.resumes, .allow_unexpected = !plan.resumes};
  const auto load = [&](checkpoint::Part part,
                        const std::vector<checkpoint::NamedTensor>& tensors) {
    options.elsewhere = names_elsewhere(job.state, tensors);
    checkpoint::load_part(step, part, tensors, options);
  };
  if (plan.model) load(checkpoint::Part::kModel, model_tensors(job.state));
  if (plan.optimizer) load(checkpoint::Part::kOptimizer, optimizer_tensors(job.state));
  if (plan.train_state) restore_small_state(step.state(), job.state);
  const int64_t schedule_position = plan.lr_scheduler ? stored_schedule_position(step.state()) : 0;
  job.state.schedule_start = job.state.step - schedule_position;
  if (plan.dataloader) job.loader->restore(step.state().at("data"));
}

checkpoint::ForeignNames hf_names(const models::ModelArgs& args) {
  return checkpoint::ForeignNames::of(models::HfNames{args});
}

// Where all readers stand, on every rank.
nlohmann::json data_state(const Job& job) {
  const auto& mesh = job.state.mesh;
  if (mesh.shape.world() == 1) return job.loader->state();
  const std::string mine = mesh.is_data_leader() ? job.loader->state().dump() : "";
  std::vector<nlohmann::json> states;
  for (const auto& text : comm::gather_text(mine, mesh.world)) {
    if (!text.empty()) states.push_back(nlohmann::json::parse(text));
  }
  return data::Loader::merge_states(states);
}

}  // namespace

Saving::Saving(Job& job, std::string config_text)
    : job_(job), config_text_(std::move(config_text)) {
  const auto& config = job.config;
  folder_ = std::filesystem::path(config.job.dump_folder) / config.checkpoint.folder;
  if (!writes()) return;
  checkpoint::check_keep_latest_k(config.checkpoint.keep_latest_k);
  if (job.state.mesh.rank == 0) {
    for (const auto& name : checkpoint::remove_leftovers(folder_)) {
      log::info("Removed {}: an earlier process ended while it was writing",
                (folder_ / name).string());
    }
  }
  // Nobody looks for checkpoints while rank 0 clears up.
  job.state.mesh.world.barrier();
}

bool Saving::writes() const {
  return job_.config.checkpoint.enable && !job_.config.checkpoint.load_only;
}

std::filesystem::path Saving::folder() const {
  return writes() ? folder_ : std::filesystem::path();
}

int64_t Saving::load() {
  const auto& config = job_.config;
  if (!config.checkpoint.enable) return 0;
  log::info("Checkpointing active. Checkpoints will be loaded from and saved to {}",
            folder_.string());
  const auto plan = checkpoint::plan_load(config.checkpoint, checkpoint::list_steps(folder_),
                                          config.model.hf_assets_path);
  for (const auto& warning : plan.warnings) log::warning("{}", warning);
  if (plan.source == checkpoint::LoadPlan::Source::kNothing) return 0;
  const Stopwatch watch;
  log::info("Loading the checkpoint from {}", plan.path.string());
  const at::NoGradGuard no_grad;
  if (plan.source == checkpoint::LoadPlan::Source::kHuggingFace) {
    const auto tensors = model_tensors(job_.state);
    const auto names = names_elsewhere(job_.state, tensors);
    std::vector<checkpoint::NamedShape> elsewhere;
    for (const auto& [name, shape] : models::parameter_shapes(job_.state.args())) {
      if (names.contains(name)) elsewhere.push_back({name, shape});
    }
    checkpoint::load_hf(checkpoint::HfFolder(plan.path), tensors, hf_names(job_.state.args()),
                        elsewhere);
  } else {
    load_step(plan, job_);
  }
  log::info("Finished loading the checkpoint in {:.2f} seconds", watch.seconds());
  saved_step_ = plan.resumes && plan.optimizer ? job_.state.step : -1;
  return job_.state.step;
}

// All ranks' parts in one state, on rank 0.
nlohmann::json Saving::state_json() const {
  nlohmann::json state = small_state(job_.state);
  state["data"] = data_state(job_);
  state[checkpoint::kModelArgsKey] = models::args_to_json(job_.state.args());
  const auto& model = job_.config.model;
  state[checkpoint::kAssetsKey] =
      std::filesystem::absolute(model.tokenizer_path.value_or(model.hf_assets_path)).string();
  state["config"] = config_text_;
  return state;
}

void Saving::write(const std::function<void(const Gathering&, const nlohmann::json&)>& write) {
  const nlohmann::json state = state_json();
  const Gathering gathering(job_.state);
  if (job_.state.mesh.rank > 0) {
    gathering.serve();
    return;
  }
  try {
    write(gathering, state);
  } catch (...) {
    gathering.finish(false);
    throw;
  }
  gathering.finish(true);
}

void Saving::save_full(bool last) {
  const Stopwatch watch;
  log::info("Saving the checkpoint to {}",
            (folder_ / checkpoint::step_name(job_.state.step)).string());
  write([&](const Gathering& gathering, const nlohmann::json& state) {
    const auto result =
        checkpoint::save(folder_, job_.state.step, gathering.model(), gathering.optimizer(), state,
                         {.keep_latest_k = job_.config.checkpoint.keep_latest_k, .last = last});
    log::info("Finished saving the checkpoint in {:.2f} seconds ({})", watch.seconds(),
              text::bytes(result.bytes));
  });
  saved_step_ = job_.state.step;
}

void Saving::save_last_model() {
  const auto& config = job_.config.checkpoint;
  const Stopwatch watch;
  const auto dtype = checkpoint::floating_dtype(config.export_dtype);
  const auto folder = folder_ / checkpoint::step_name(job_.state.step);
  log::info("Saving the model alone in {} to {}", config.export_dtype, folder.string());
  write([&](const Gathering& gathering, const nlohmann::json& state) {
    if (config.last_save_in_hf) {
      const auto& args = job_.state.args();
      checkpoint::save_hf(folder, gathering.model(dtype), hf_names(args),
                          {.config_json = models::hf_config_of(args, config.export_dtype).dump(2),
                           .assets = checkpoint::hf_assets_in(job_.config.model.hf_assets_path)});
    } else {
      checkpoint::save_model(folder_, job_.state.step, gathering.model(dtype), state,
                             {.keep_latest_k = config.keep_latest_k, .last = true});
    }
    log::info("Finished saving the model in {:.2f} seconds", watch.seconds());
  });
  saved_step_ = job_.state.step;
}

bool Saving::due(bool last) const {
  const auto& config = job_.config.checkpoint;
  const int64_t step = job_.state.step;
  return writes() && (last || step % config.interval == 0 ||
                      (step == 1 && config.enable_first_step_checkpoint));
}

void Saving::after_step(bool last) {
  if (!due(last)) return;
  if (last && job_.config.checkpoint.last_save_model_only) {
    save_last_model();
  } else {
    save_full(last);
  }
}

void Saving::after_interrupt() {
  if (writes() && saved_step_ != job_.state.step) save_full(false);
}

void Saving::seed_checkpoint() {
  write([&](const Gathering& gathering, const nlohmann::json& state) {
    checkpoint::save_model(folder_, 0, gathering.model(), state);
    log::info("Created the seed checkpoint {}", (folder_ / checkpoint::step_name(0)).string());
  });
}

}  // namespace titan::train
