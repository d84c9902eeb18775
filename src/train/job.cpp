#include "train/job.h"

#include <random>

#include "base/error.h"
#include "base/log.h"
#include "data/loader_options.h"
#include "device/registry.h"
#include "models/registry.h"
#include "ops/recompute.h"
#include "parallel/single_device.h"

namespace titan::train {
namespace {

at::ScalarType parse_dtype(const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  if (name == "float16") return at::kHalf;
  if (name == "float64") return at::kDouble;
  throw Error("[training] dtype '{}' is not one of float32, bfloat16, float16, float64", name);
}

uint64_t choose_seed(const config::Debug& debug) {
  if (debug.seed) return static_cast<uint64_t>(*debug.seed);
  const uint64_t seed = std::random_device{}();
  log::info("Seed {} was drawn; debug.seed = {} repeats this run", seed, seed);
  return seed;
}

TrainingState make_state(const config::JobConfig& config, const models::ModelArgs& args,
                         const Job& job) {
  const at::Device device = job.backend->device();
  const bool scaled = job.compute_dtype == at::kHalf;
  TrainingState state{.model = models::make_model(args, job.parameter_dtype, device, job.seed),
                      .runner = nullptr,
                      .optimizer = nullptr,
                      .loss_scale = optim::LossScale(scaled, device),
                      .schedule = optim::make_schedule(config.lr_scheduler, job.total_steps)};
  const auto plan = parallel::make_recompute_plan(config.activation_checkpoint, args.num_layers);
  log::info("Activation recomputation: {}", parallel::describe(plan));
  state.runner = std::make_unique<parallel::SingleDeviceRunner>(job.compute_dtype, plan);
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  state.model->visit([&](const std::string& name, at::Tensor& parameter, const nn::Init&) {
    parameters.emplace_back(name, parameter);
  });
  state.optimizer = std::make_unique<optim::Adam>(config.optimizer, std::move(parameters));
  state.peak_lr = config.optimizer.lr;
  state.max_norm = config.training.max_norm;
  state.loss_chunk_tokens = config.training.loss_chunk_tokens;
  const auto scalar_dtype = job.parameter_dtype == at::kDouble ? at::kDouble : at::kFloat;
  state.lr = at::zeros({}, at::TensorOptions(scalar_dtype).device(device));
  state.inverse_valid_tokens = at::zeros({}, at::TensorOptions(scalar_dtype).device(device));
  return state;
}

void check_vocabulary(const models::ModelArgs& args, const data::Tokenizer& tokenizer,
                      const std::string& path) {
  if (tokenizer.vocab_size() <= args.vocab_size) return;
  throw Error(
      "[model] {} {} has {} rows of vocabulary, the tokenizer in {} has ids up to {} — set "
      "model.args.vocab_size "
      "to at least {}",
      args.family, args.flavor, args.vocab_size, path, tokenizer.vocab_size() - 1,
      tokenizer.vocab_size());
}

}  // namespace

at::ScalarType compute_dtype(const config::Training& training) {
  const auto parameters = parse_dtype(training.dtype);
  return parameters == at::kFloat ? parse_dtype(training.mixed_precision_param) : parameters;
}

Job make_job(const config::JobConfig& config) {
  const auto& training = config.training;
  const models::ModelArgs args = models::resolve(config.model, training.seq_len);
  // The device module must be loaded before anything else touches libtorch's devices or seeds.
  auto backend =
      device::open_backend({.name = config.device.name, .threads = config.device.threads});
  if (config.debug.deterministic) backend->set_deterministic(true);
  ops::install_saved_tensor_hooks();

  const std::string assets = config.model.tokenizer_path.value_or(config.model.hf_assets_path);
  Job job{.config = config,
          .backend = std::move(backend),
          .tokenizer = data::load_tokenizer(assets),
          .state = {.loss_scale = optim::LossScale(false, at::kCPU)}};
  check_vocabulary(args, *job.tokenizer, assets);
  const int64_t global =
      training.global_batch_size > 0 ? training.global_batch_size : training.local_batch_size;
  job.accumulation_steps = global / training.local_batch_size;
  job.total_steps = training.steps;
  job.loader = std::make_unique<data::Loader>(data::training_loader(training, config.data, 0, 1),
                                              *job.tokenizer);
  job.parameter_dtype = parse_dtype(training.dtype);
  job.compute_dtype = compute_dtype(training);
  job.seed = choose_seed(config.debug);
  job.backend->seed(job.seed);
  job.state = make_state(config, args, job);
  if (config.validation.enable) {
    auto loader = std::make_unique<data::Loader>(
        data::validation_loader(config.validation, config.data, 0, 1), *job.tokenizer);
    job.evaluation = std::make_unique<Evaluation>(std::move(loader), *job.tokenizer,
                                                  config.validation.steps, job.backend->device());
  }
  return job;
}

}  // namespace titan::train
