#include "generate/source.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/store.h"
#include "models/hf.h"
#include "models/hf_config.h"

namespace titan::generate {
namespace fs = std::filesystem;
namespace {

constexpr const char* kEmbedding = "tok_embeddings.weight";

std::optional<Source::Kind> kind_of_folder(const fs::path& folder) {
  if (fs::exists(folder / checkpoint::kIndexFile)) return Source::Kind::kStep;
  if (fs::exists(folder / checkpoint::kHfIndexFile) || fs::exists(folder / "model.safetensors") ||
      fs::exists(folder / "config.json")) {
    return Source::Kind::kHuggingFace;
  }
  return std::nullopt;
}

// Absolute, without "." and "..", without a slash at the end.
fs::path whole(const fs::path& folder) {
  return fs::absolute(folder / "").lexically_normal().parent_path();
}

Source newest_step(const fs::path& steps_folder, const std::vector<checkpoint::StepInfo>& steps) {
  const auto& newest = steps.back();
  const bool foreign = newest.kind == checkpoint::StepKind::kHuggingFace;
  return {foreign ? Source::Kind::kHuggingFace : Source::Kind::kStep, newest.path,
          whole(steps_folder).parent_path()};
}

// The folders inside a run folder that hold complete steps ([checkpoint] folder may have another
// name than "checkpoint").
std::vector<fs::path> step_folders_in(const fs::path& run_folder) {
  if (!checkpoint::list_steps(run_folder / "checkpoint").empty())
    return {run_folder / "checkpoint"};
  std::vector<fs::path> found;
  for (const auto& entry :
       fs::directory_iterator(run_folder, fs::directory_options::skip_permission_denied)) {
    if (entry.is_directory() && !checkpoint::list_steps(entry.path()).empty())
      found.push_back(entry.path());
  }
  return found;
}

checkpoint::ForeignNames names_of(const models::ModelArgs& args) {
  return checkpoint::ForeignNames::of(models::HfNames{args});
}

void check_model_fits(const models::ModelArgs& args, at::ScalarType dtype, int64_t free_bytes) {
  const int64_t needed =
      models::count_parameters(args).total * static_cast<int64_t>(c10::elementSize(dtype));
  if (needed <= free_bytes) return;
  throw EnvironmentError(
      "[memory] the parameters take {} and {} are free on the device — use --dtype bfloat16 or "
      "another "
      "--device",
      text::bytes(needed), text::bytes(free_bytes));
}

std::unique_ptr<models::Model> make_empty(const models::ModelArgs& args, at::ScalarType dtype,
                                          at::Device device, int64_t free_bytes,
                                          std::vector<checkpoint::NamedTensor>& targets) {
  check_model_fits(args, dtype, free_bytes);
  auto model = models::make_model_uninitialized(args, dtype, device);
  model->visit([&](const std::string& name, at::Tensor& parameter, const nn::Init&) {
    parameter.set_requires_grad(false);
    targets.push_back({name, parameter});
  });
  return model;
}

LoadedModel load_step(const fs::path& folder, std::optional<at::ScalarType> dtype,
                      at::Device device, int64_t free_bytes) {
  const checkpoint::Step step(folder);
  const std::string what = fmt::format("[generate] {}", (folder / checkpoint::kIndexFile).string());
  if (!step.state().contains("model_args")) {
    throw Error(
        "{}: the state has no 'model_args', so the model's sizes are unknown — use a checkpoint "
        "that titan train or "
        "titan checkpoint import has written",
        what);
  }
  const auto args = models::args_from_json(step.state().at("model_args"), what + ": model_args");
  const auto stored = step.index().tensors.find(kEmbedding);
  if (stored == step.index().tensors.end())
    throw Error("{}: there is no tensor '{}'", what, kEmbedding);
  LoadedModel loaded{.dtype = dtype.value_or(stored->second.dtype), .state = step.state()};
  std::vector<checkpoint::NamedTensor> targets;
  loaded.model = make_empty(args, loaded.dtype, device, free_bytes, targets);
  checkpoint::load_part(step, checkpoint::Part::kModel, targets, {.allow_cast = true});
  loaded.description = fmt::format("step {} in {}", step.index().step, folder.string());
  return loaded;
}

// eos_token_id of generation_config.json, a number or a list: chat models name more than one.
std::vector<int32_t> end_ids_of(const fs::path& folder) {
  const fs::path file = folder / "generation_config.json";
  if (!fs::exists(file)) return {};
  const std::string what = fmt::format("[generate] {}", file.string());
  const auto root = json::parse_strict(files::read(file), what);
  const auto found = root.is_object() ? root.find("eos_token_id") : root.end();
  if (found == root.end() || found->is_null()) return {};
  std::vector<int32_t> ids;
  for (const auto& id : found->is_array() ? *found : nlohmann::json::array({*found})) {
    if (!id.is_number_integer())
      throw Error("{}: 'eos_token_id' must be a whole number or a list of them", what);
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

LoadedModel load_foreign(const fs::path& folder, std::optional<at::ScalarType> dtype,
                         at::Device device, int64_t free_bytes) {
  const auto args = models::read_hf_config(folder);
  const auto names = names_of(args);
  const checkpoint::HfFolder files(folder);
  const auto* stored = files.find(names.foreign_name(kEmbedding));
  if (!stored)
    throw Error("[generate] {} has no tensor '{}'", folder.string(),
                names.foreign_name(kEmbedding));
  LoadedModel loaded{.dtype = dtype.value_or(stored->dtype), .end_ids = end_ids_of(folder)};
  std::vector<checkpoint::NamedTensor> targets;
  loaded.model = make_empty(args, loaded.dtype, device, free_bytes, targets);
  checkpoint::load_hf(files, targets, names);
  loaded.description = fmt::format("the Hugging Face folder {}", folder.string());
  return loaded;
}

}  // namespace

Source find_source(const fs::path& path) {
  if (!fs::exists(path))
    throw Error("[generate] there is no {} — check --checkpoint", path.string());
  if (!fs::is_directory(path)) {
    throw Error(
        "[generate] {} is a file — --checkpoint needs a folder: a step, a run or a Hugging Face "
        "model",
        path.string());
  }
  if (const auto kind = kind_of_folder(path)) {
    const auto folder = whole(path);
    const bool in_run = folder.filename().string().starts_with("step-");
    return {*kind, path, in_run ? folder.parent_path().parent_path() : fs::path()};
  }
  if (const auto steps = checkpoint::list_steps(path); !steps.empty())
    return newest_step(path, steps);
  const auto folders = step_folders_in(path);
  if (folders.size() == 1) return newest_step(folders[0], checkpoint::list_steps(folders[0]));
  if (folders.size() > 1) {
    throw Error(
        "[generate] {} has checkpoints in more than one folder ({}, {}, …) — name one of them",
        path.string(), folders[0].filename().string(), folders[1].filename().string());
  }
  throw Error(
      "[generate] {} holds no complete checkpoint: no {}, no config.json with safetensors, no "
      "step-N folder, also "
      "not inside {} — did the run save one ([checkpoint] enable)?",
      path.string(), checkpoint::kIndexFile, (path / "checkpoint").string());
}

LoadedModel load_model(const Source& source, std::optional<at::ScalarType> dtype, at::Device device,
                       int64_t free_bytes) {
  const at::NoGradGuard no_grad;
  return source.kind == Source::Kind::kStep
             ? load_step(source.folder, dtype, device, free_bytes)
             : load_foreign(source.folder, dtype, device, free_bytes);
}

}  // namespace titan::generate
