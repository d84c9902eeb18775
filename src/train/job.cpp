#include "train/job.h"

#include <random>

#include "base/address.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/fake_world.h"
#include "comm/rendezvous.h"
#include "data/loader_options.h"
#include "device/registry.h"
#include "models/hf_config.h"
#include "models/registry.h"
#include "ops/recompute.h"
#include "train/assembly.h"
#include "train/float8.h"
#include "train/layout.h"
#include "train/npu_settings.h"

namespace titan::train {
namespace {

at::ScalarType parse_dtype(const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  if (name == "float16") return at::kHalf;
  if (name == "float64") return at::kDouble;
  throw Error("[training] dtype '{}' is not one of float32, bfloat16, float16, float64", name);
}

// Rank 0's choice, on all ranks.
uint64_t choose_seed(const config::Debug& debug, const comm::Mesh& mesh) {
  if (debug.seed) return static_cast<uint64_t>(*debug.seed);
  at::Tensor seed = at::tensor({static_cast<int64_t>(std::random_device{}())}, at::kLong);
  mesh.world.broadcast(seed, 0);
  const auto drawn = static_cast<uint64_t>(seed.item<int64_t>());
  log::info("Seed {} was drawn; debug.seed = {} repeats this run", drawn, drawn);
  return drawn;
}

TrainingState make_state(const config::JobConfig& config, const models::ModelArgs& args,
                         const comm::Mesh& mesh, std::shared_ptr<const Pipeline> pipeline,
                         const Job& job) {
  const auto plan = parallel::make_recompute_plan(config.activation_checkpoint, args.num_layers);
  log::info("Activation recomputation: {}", parallel::describe(plan));
  auto float8 = float8_layers(config, args, mesh.shape, job.backend->device(), job.compute_dtype);
  if (float8) log::info("Linear layers in float8, {}", describe(float8));
  if (config.training.enable_cpu_offload) {
    log::info("Parameters, gradients and optimizer states lie in host memory");
  }
  if (config.optimizer.early_step_in_backward) {
    log::warning(
        "optimizer.early_step_in_backward: gradients are used before the norm of all is known, so "
        "training.max_norm = {} clips nothing; grad_norm is logged as it was",
        config.training.max_norm);
  }
  TrainingState state =
      assemble(args, mesh,
               {.parameter_dtype = job.parameter_dtype,
                .compute_dtype = job.compute_dtype,
                .device = job.backend->device(),
                .seed = job.seed,
                .optimizer = config.optimizer,
                .plan = plan,
                .context_method = context_method(config.parallelism),
                .head_tail = head_tail(config.parallelism),
                .overlap_tp = config.parallelism.enable_async_tensor_parallel,
                .reshard = reshard_of(config),
                .whole_gradients = config.npu.zero_stage == 1,
                .offload = config.training.enable_cpu_offload,
                .captured = config.compile.enable && !config.optimizer.early_step_in_backward,
                .early_step = config.optimizer.early_step_in_backward,
                .float8 = std::move(float8),
                .pipeline = std::move(pipeline)});
  state.schedule = optim::make_schedule(config.lr_scheduler, job.total_steps);
  state.peak_lr = config.optimizer.lr;
  state.max_norm = config.training.max_norm;
  state.loss_chunk_tokens = config.training.loss_chunk_tokens;
  state.documents = {.mask = args.block_causal, .reset_positions = config.data.reset_positions};
  return state;
}

// The number and the shapes of all messages follow from these.
comm::Facts shared_facts(const config::JobConfig& config, const models::ModelArgs& args,
                         const comm::MeshShape& shape) {
  const auto& training = config.training;
  comm::Facts facts = {
      {"the layout", comm::describe(shape)},
      {"training.seq_len", std::to_string(training.seq_len)},
      {"training.local_batch_size", std::to_string(training.local_batch_size)},
      {"training.global_batch_size", std::to_string(training.global_batch_size)},
      {"training.steps", std::to_string(training.steps)},
      {"training.dtype", training.dtype},
      {"data.reset_positions", config.data.reset_positions ? "true" : "false"},
      {"training.mixed_precision_param", training.mixed_precision_param},
      {"parallelism.pipeline_parallel_schedule", config.parallelism.pipeline_parallel_schedule},
      {"parallelism.context_parallel_rotate_method",
       config.parallelism.context_parallel_rotate_method},
      {"parallelism.enable_async_tensor_parallel",
       config.parallelism.enable_async_tensor_parallel ? "true" : "false"},
      {"optimizer.early_step_in_backward",
       config.optimizer.early_step_in_backward ? "true" : "false"}};
  const auto sizes = models::args_to_json(args);
  for (const auto& [name, value] : sizes.items()) {
    facts["the model's " + name] = value.dump();
  }
  return facts;
}

comm::Mesh meet(const config::JobConfig& config, const models::ModelArgs& args,
                const comm::MeshShape& shape, const World& world, device::Backend& backend) {
  if (world.size == 1 && !config.debug.shard_one_process) return {};
  const Stopwatch watch;
  const auto context = std::make_shared<comm::RankContext>();
  context->recorder.set_capacity(config.comm.trace_buf_size);
  if (config.comm.mode == "fake_backend") {
    log::warning(
        "comm.mode = fake_backend: of {} ranks only rank {} exists; memory and shapes are real, "
        "losses mean nothing",
        world.size, world.rank);
    const auto fake = comm::fake_world(world.rank, context);
    return comm::make_mesh(shape, world.rank, fake, fake, context);
  }
  const comm::Rendezvous rendezvous(world, static_cast<double>(config.comm.init_timeout_seconds),
                                    shared_facts(config, args, shape));
  comm::Mesh mesh =
      comm::make_mesh(shape, world.rank, rendezvous.host(context),
                      rendezvous.device(backend, context), context, config.debug.shard_one_process);
  log::info("{} processes met at {} in {:.2f} s: {}", world.size,
            endpoint(world.master_addr, world.master_port), watch.seconds(), comm::describe(shape));
  return mesh;
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

Job make_job(const config::JobConfig& config, const World& world, StartTimes start) {
  const auto& training = config.training;
  const models::ModelArgs args = models::resolve(config.model, training.seq_len);
  const comm::MeshShape shape = mesh_shape(config, args, world.size);
  const auto pipeline = make_pipeline(config.parallelism, args, training.local_batch_size);
  if (pipeline) {
    const auto& plan = pipeline->plan;
    for (const auto& warning : plan.warnings) log::warning("{}", warning);
    log::info("Pipeline: {} with {} stages, {} micro-batches; idle share {:.1f}% by the simulator",
              plan.compute.name, plan.compute.num_stages, plan.compute.num_microbatches,
              100 * plan.report.bubble_share);
  }
  // The device module must be loaded before anything else touches libtorch's devices or seeds.
  auto backend = device::open_backend({.name = config.device.name,
                                       .threads = config.device.threads,
                                       .npu_settings = npu_settings(config)});
  if (config.npu.memory_fraction) backend->limit_memory(*config.npu.memory_fraction);
  // The profiler's library reports missing GPUs as errors, also where none is asked for.
  if (backend->device().is_cpu()) env::set_default("KINETO_LOG_LEVEL", "5");
  if (config.debug.deterministic) backend->set_deterministic(true);
  ops::install_saved_tensor_hooks();
  start.end_of("device");

  const std::string assets = config.model.tokenizer_path.value_or(config.model.hf_assets_path);
  Job job{.config = config,
          .world = world,
          .backend = std::move(backend),
          .tokenizer = data::load_tokenizer(assets),
          .state = {.loss_scale = optim::LossScale(false, at::kCPU)},
          .start = std::move(start)};
  check_vocabulary(args, *job.tokenizer, assets);
  job.start.end_of("tokenizer");
  const int64_t readers = shape.data();
  const int64_t reader = comm::data_rank(shape, world.rank);
  const int64_t step = training.local_batch_size * readers;
  job.accumulation_steps = training.global_batch_size > 0 ? training.global_batch_size / step : 1;
  job.total_steps = training.steps;
  job.loader = std::make_unique<data::Loader>(
      data::training_loader(training, config.data, reader, readers), *job.tokenizer);
  job.parameter_dtype = parse_dtype(training.dtype);
  job.compute_dtype = compute_dtype(training);
  job.start.end_of("data");
  const comm::Mesh mesh = meet(config, args, shape, world, *job.backend);
  if (world.size > 1) job.start.end_of("meeting of the processes");
  job.seed = choose_seed(config.debug, mesh);
  job.backend->seed(job.seed);
  job.state = make_state(config, args, mesh, pipeline, job);
  job.start.end_of("model");
  if (config.validation.enable) {
    auto loader = std::make_unique<data::Loader>(
        data::validation_loader(config.validation, config.data, reader, readers), *job.tokenizer);
    job.evaluation = std::make_unique<Evaluation>(std::move(loader), *job.tokenizer,
                                                  config.validation.steps, job.backend->device());
  }
  return job;
}

}  // namespace titan::train
