// `titan checkpoint import|export|ls|verify`.
#include <cstdio>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/dtype.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/inspect.h"
#include "checkpoint/store.h"
#include "cli/command.h"
#include "cli/options.h"
#include "models/hf.h"
#include "models/hf_config.h"
#include "models/model.h"

namespace titan::cli {
namespace {
namespace fs = std::filesystem;

struct CheckpointOptions {
  std::string input, output, dtype, assets;
  double max_file_gib = 5;
  std::vector<std::string> paths;
};

std::optional<at::ScalarType> wanted_dtype(const CheckpointOptions& options) {
  if (options.dtype.empty()) return std::nullopt;
  const auto dtype = checkpoint::floating_dtype(options.dtype);
  if (!dtype) {
    throw Error("[checkpoint] --dtype is {} — float32, bfloat16, float16 or float64 are possible",
                options.dtype);
  }
  return dtype;
}

std::vector<checkpoint::NamedShape> shapes_of(const models::ModelArgs& args) {
  std::vector<checkpoint::NamedShape> shapes;
  for (auto& [name, shape] : models::parameter_shapes(args)) shapes.push_back({name, shape});
  return shapes;
}

int64_t parameters_in(std::span<const checkpoint::TensorSource> sources) {
  int64_t count = 0;
  for (const auto& source : sources)
    count += source.bytes() / static_cast<int64_t>(c10::elementSize(source.dtype));
  return count;
}

void import_hf(const CheckpointOptions& options) {
  const Stopwatch stopwatch;
  const fs::path target = fs::path(options.output) / checkpoint::step_name(0);
  if (fs::exists(target))
    throw Error("[checkpoint] {} exists — choose another OUT or delete it", target.string());
  const models::ModelArgs args = models::read_hf_config(options.input);
  const checkpoint::HfFolder folder(options.input);
  const auto names = checkpoint::ForeignNames::of(models::HfNames{args});
  const auto sources =
      checkpoint::hf_sources(folder, shapes_of(args), names, wanted_dtype(options));
  const nlohmann::json state = {{"step", 0},
                                {"tokens_seen", 0},
                                {checkpoint::kModelArgsKey, models::args_to_json(args)},
                                {checkpoint::kAssetsKey, fs::canonical(options.input).string()}};
  const auto saved = checkpoint::save_model(options.output, 0, sources, state);
  std::printf("imported %s (%s parameters, %s) in %s\n", options.input.c_str(),
              text::with_commas(parameters_in(sources)).c_str(), text::bytes(saved.bytes).c_str(),
              text::duration(stopwatch.seconds()).c_str());
  std::printf("written to %s; train from it with --checkpoint.initial_load_path=%s\n",
              target.c_str(), target.c_str());
}

// The step folder that an export takes: the path itself or the newest titan step in it.
fs::path newest_step(const std::string& path) {
  const auto steps = checkpoint::find_steps(path);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (step->kind != checkpoint::StepKind::kHuggingFace) return step->path;
  }
  throw Error("[checkpoint] {} is already a Hugging Face folder", steps.back().path.string());
}

// Where the tokenizer's files are: --assets, or what the checkpoint remembers if it is still there.
fs::path assets_folder(const CheckpointOptions& options, const nlohmann::json& state) {
  if (!options.assets.empty()) {
    if (!fs::is_directory(options.assets))
      throw Error("[checkpoint] --assets: there is no folder {}", options.assets);
    return options.assets;
  }
  const auto remembered = state.find(checkpoint::kAssetsKey);
  if (remembered == state.end() || !remembered->is_string()) return {};
  const fs::path folder = remembered->get<std::string>();
  return fs::is_directory(folder) ? folder : folder.parent_path();
}

// Ids of special tokens are not sizes of the model: they come from the config.json beside the
// tokenizer, if there is one.
void add_special_ids(nlohmann::json& config, const fs::path& assets) {
  const fs::path path = assets / "config.json";
  if (assets.empty() || !fs::is_regular_file(path)) return;
  const auto source =
      json::parse_strict(files::read(path), fmt::format("[checkpoint] {}", path.string()));
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (source.is_object() && source.contains(key)) config[key] = source[key];
  }
}

std::string common_dtype(std::span<const checkpoint::TensorSource> sources) {
  return checkpoint::dtype_name(sources.empty() ? at::kFloat : sources.front().dtype);
}

void export_hf(const CheckpointOptions& options) {
  const Stopwatch stopwatch;
  if (fs::exists(options.output) &&
      !(fs::is_directory(options.output) && fs::is_empty(options.output))) {
    throw Error("[checkpoint] {} exists — choose another OUT or delete it", options.output);
  }
  if (!(options.max_file_gib > 0))
    throw Error("[checkpoint] --max-file-gib is {}, more than 0 is needed", options.max_file_gib);
  const checkpoint::Step step(newest_step(options.input));
  const std::string what =
      fmt::format("[checkpoint] {}", (step.folder() / checkpoint::kIndexFile).string());
  const auto args = models::args_from_json(
      json::member(step.state(), checkpoint::kModelArgsKey, what + ": state"),
      what + ": model_args");
  const auto sources = checkpoint::model_sources(step, shapes_of(args), wanted_dtype(options));
  const fs::path assets = assets_folder(options, step.state());
  auto config = models::hf_config_of(args, common_dtype(sources));
  add_special_ids(config, assets);
  checkpoint::HfExport hf{
      .config_json = config.dump(2) + "\n",
      .assets = assets.empty() ? std::vector<fs::path>{} : checkpoint::hf_assets_in(assets),
      .max_file_bytes = static_cast<int64_t>(options.max_file_gib * (int64_t{1} << 30))};
  const auto names = checkpoint::ForeignNames::of(models::HfNames{args});
  const int64_t bytes = checkpoint::save_hf(options.output, sources, names, hf);
  std::printf("exported %s (%s parameters, %s, %s) to %s in %s\n", step.folder().c_str(),
              text::with_commas(parameters_in(sources)).c_str(), common_dtype(sources).c_str(),
              text::bytes(bytes).c_str(), options.output.c_str(),
              text::duration(stopwatch.seconds()).c_str());
  if (hf.assets.empty())
    std::printf("no tokenizer files were found to copy along — name their folder with --assets\n");
}

const char* kind_name(checkpoint::StepKind kind) {
  switch (kind) {
    case checkpoint::StepKind::kFull:
      return "full";
    case checkpoint::StepKind::kModelOnly:
      return "model";
    case checkpoint::StepKind::kHuggingFace:
      return "huggingface";
  }
  return "";
}

void list_one(const fs::path& path) {
  const auto steps = checkpoint::find_steps(path);
  std::printf("%-24s %-11s %10s %16s  %-10s %16s\n", "step", "kind", "size", "parameters", "dtype",
              "tokens");
  for (const auto& step : steps) {
    const auto summary = checkpoint::summarize(step);
    const std::string tokens =
        summary.tokens_seen < 0 ? "-" : text::with_commas(summary.tokens_seen);
    std::printf("%-24s %-11s %10s %16s  %-10s %16s\n", step.path.filename().c_str(),
                kind_name(step.kind), text::bytes(summary.bytes).c_str(),
                text::with_commas(summary.parameters).c_str(), summary.dtypes.c_str(),
                tokens.c_str());
    if (!summary.problem.empty()) std::printf("  unusable: %s\n", summary.problem.c_str());
  }
  const fs::path folder = steps.front().path.parent_path();
  if (steps.size() == 1 && fs::equivalent(steps.front().path, path)) return;
  for (const auto& name : checkpoint::incomplete_steps(folder)) {
    std::printf("%-24s incomplete: being written now, or left by a process that ended\n",
                name.c_str());
  }
}

// Returns the number of problems.
int64_t verify_one(const fs::path& path) {
  int64_t problems = 0;
  for (const auto& step : checkpoint::find_steps(path)) {
    const Stopwatch stopwatch;
    const auto report = checkpoint::verify(step);
    for (const auto& problem : report.problems) std::printf("%s\n", problem.c_str());
    problems += static_cast<int64_t>(report.problems.size());
    if (!report.problems.empty()) continue;
    const std::string values =
        report.has_checksums ? fmt::format("{} equal their checksums", text::bytes(report.bytes))
                             : "headers and sizes agree (Hugging Face files carry no checksums)";
    std::printf("%s: %s tensors, %s, %s\n", step.path.c_str(),
                text::with_commas(report.tensors).c_str(), values.c_str(),
                text::duration(stopwatch.seconds()).c_str());
  }
  return problems;
}

void add_conversions(CLI::App& app, CheckpointOptions& options) {
  auto* in = app.add_subcommand(
      "import", "make a titan checkpoint (OUT/step-0) of a Hugging Face model folder");
  in->add_option("HF_DIR", options.input, "folder with config.json and safetensors files")
      ->required();
  in->add_option("OUT", options.output, "folder that gets step-0")->required();
  in->add_option("--dtype", options.dtype, "store the weights as this type (default: as they are)");
  in->callback([&] { import_hf(options); });
  auto* out =
      app.add_subcommand("export", "make a Hugging Face model folder of a titan checkpoint");
  out->add_option("CKPT", options.input,
                  "step folder, folder of steps or a run's dump_folder (the newest step)")
      ->required();
  out->add_option("OUT", options.output, "new folder")->required();
  out->add_option("--dtype", options.dtype,
                  "store the weights as this type (default: as they are)");
  out->add_option("--assets", options.assets, "folder whose tokenizer files are copied along");
  out->add_option("--max-file-gib,--max_file_gib", options.max_file_gib,
                  "split the weights at this size")
      ->capture_default_str();
  out->callback([&] { export_hf(options); });
}

}  // namespace

int run_checkpoint(Arguments arguments) {
  CLI::App app("Lists, checks and converts checkpoints.", "titan checkpoint");
  app.require_subcommand(1);
  CheckpointOptions options;
  int64_t problems = 0;
  add_conversions(app, options);
  const char* path_help =
      "step folder, folder of steps, a run's dump_folder or a Hugging Face folder";
  auto* ls = app.add_subcommand("ls", "list the steps: kind, size, parameters, type, tokens");
  ls->add_option("PATH", options.paths, path_help)->required();
  ls->callback([&] {
    for (const auto& path : options.paths) list_one(path);
  });
  auto* verify =
      app.add_subcommand("verify", "recompute every checksum; name each damaged tensor and file");
  verify->add_option("PATH", options.paths, path_help)->required();
  verify->callback([&] {
    for (const auto& path : options.paths) problems += verify_one(path);
  });

  if (!parse_options(app, arguments)) return 0;
  if (problems > 0)
    throw Error("[checkpoint] verify found {} problems — use another step or a copy", problems);
  return 0;
}

}  // namespace titan::cli
