#include "train/loop.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/watch.h"
#include "models/model.h"
#include "observe/metrics_logger.h"
#include "observe/run_record.h"
#include "observe/throughput.h"
#include "ops/recompute.h"
#include "train/batches.h"
#include "train/captured_step.h"
#include "train/run_facts.h"
#include "train/saving.h"
#include "train/signals.h"
#include "train/step.h"
#include "train/traces.h"

namespace titan::train {
namespace {

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

observe::MetricsOptions metrics_options(const Job& job, int64_t resumed_step) {
  const auto& config = job.config;
  const bool color = log::wants_color(1);
  return {.run_folder = config.job.dump_folder,
          .log_freq = config.metrics.log_freq,
          .total_steps = job.total_steps,
          .resumed_step = resumed_step,
          .writer = job.world.rank == 0 || config.comm.mode == "fake_backend",
          .rank = job.world.rank,
          .enable_jsonl = config.metrics.enable_jsonl,
          .enable_tensorboard = config.metrics.enable_tensorboard,
          .tensorboard_folder = config.metrics.save_tb_folder,
          .save_for_all_ranks = config.metrics.save_for_all_ranks,
          .color = color && !config.metrics.disable_color_printing,
          .on_terminal = color};
}

// The state of one run while it goes on.
class Loop {
 public:
  Loop(Job& job, Saving& saving, observe::RunRecord record, int64_t resumed_step)
      : job_(job),
        saving_(saving),
        record_(std::move(record)),
        metrics_(metrics_options(job, resumed_step)),
        traces_(job.config.profiling,
                std::filesystem::path(job.config.job.dump_folder) /
                    job.config.profiling.save_traces_folder,
                job.world.rank, *job.backend),
        throughput_(
            {.flops_per_token = record_.flops_per_token,
             .peak_flops = record_.peak_flops,
             .devices_per_replica = job.state.mesh.shape.world() / job.state.mesh.shape.data(),
             .tokens_seen = job.state.tokens_seen}) {
    record_.tensorboard_folder = metrics_.tensorboard_path().string();
    record_.checkpoint_folder = saving.folder().string();
    prepare_capture();
  }

  int run();

 private:
  void prepare_capture();
  void refuse_divergence(const StepResult& result) const;
  bool one_step();
  void log_step(const StepResult& result, double lr);
  void validate();
  void finish(observe::RunStatus status);
  void write_record() const {
    if (job_.world.rank == 0) observe::write_run_record(job_.config.job.dump_folder, record_);
  }
  int agreed_signal(const StopSignals& signals) const;
  void report_traffic() const;
  std::filesystem::path comm_trace_file() const;
  void watch_collectives();
  void write_comm_trace();
  observe::StepMetrics memory_metrics();

  Job& job_;
  Saving& saving_;
  observe::RunRecord record_;
  observe::MetricsLogger metrics_;
  StepTraces traces_;
  observe::Throughput throughput_;
  double startup_s_ = 0;
  int64_t first_step_ = 1;
  double waited_s_ = 0;
  std::optional<StepResult> last_result_;
  std::optional<comm::Watch> watch_;  // of the collectives; absent: they are not recorded
  std::optional<CapturedStep> captured_;
};

void Loop::prepare_capture() {
  const auto& compile = job_.config.compile;
  if (!compile.enable) {
    if (!compile.require) return;
    throw Error("[compile] require without enable — set compile.enable = true");
  }
  const auto problem = capture_problem(job_.config, job_.state, *job_.backend);
  if (!problem.empty()) {
    if (compile.require) {
      throw Error("[compile] the step cannot be captured: {} — change that, or unset require",
                  problem);
    }
    log::warning("compile.enable: the step runs uncaptured, with the same results: {}", problem);
    return;
  }
  log::info(
      "compile.enable: the whole step is captured as a graph of the device after {} steps; "
      "compile.backend = {} and compile.components select nothing else",
      kWarmUpSteps, compile.backend);
  captured_.emplace(*job_.backend, job_.state, compile.require);
}

observe::StepMetrics Loop::memory_metrics() {
  const auto memory = job_.backend->memory();
  record_.peak_memory = std::max(record_.peak_memory, memory.reserved_peak);
  return {.step = job_.state.step,
          .memory_gib = gib(memory.reserved_peak),
          .memory_percent = 100.0 * static_cast<double>(memory.reserved_peak) /
                            static_cast<double>(memory.capacity)};
}

// Throws when the parameters are lost. Waits for the device: called where a step is logged or
// saved, so that a broken state never replaces a checkpoint.
void Loop::refuse_divergence(const StepResult& result) const {
  const double loss = result.loss.item<double>(), norm = result.grad_norm.item<double>();
  const auto& scale = job_.state.loss_scale;
  const char* advice =
      "lower optimizer.lr, lengthen lr_scheduler.warmup_steps or look at the data; checkpoints "
      "hold "
      "earlier steps only";
  if (scale.dynamic()) {
    // Overflowed steps are skipped; a scale that keeps falling means that every step is.
    if (scale.scale().item<double>() > 0x1p-24) return;
    throw Error(
        "[train] the loss scale has fallen to {:.1e} at step {}, every step overflows — use "
        "bfloat16, or {}",
        scale.scale().item<double>(), job_.state.step, advice);
  }
  if (!std::isfinite(loss))
    throw Error("[train] the loss is {} at step {} — {}", loss, job_.state.step, advice);
  if (!std::isfinite(norm))
    throw Error("[train] the gradient norm is {} at step {} — {}", norm, job_.state.step, advice);
}

void Loop::log_step(const StepResult& result, double lr) {
  // The one place where a step's values come to the host: logged steps wait for the device here.
  observe::StepMetrics metrics = memory_metrics();
  metrics.loss = result.loss.item<double>();
  metrics.max_loss = metrics.loss;
  metrics.grad_norm = result.grad_norm.item<double>();
  metrics.lr = lr;
  throughput_.fill(metrics);
  metrics_.log_step(metrics);
  record_.loss = metrics.loss;
  refuse_divergence(result);
  job_.backend->reset_peak_memory();
}

void Loop::validate() {
  throughput_.pause();
  const auto result = job_.evaluation->run(job_.state);
  const observe::StepMetrics memory = memory_metrics();
  metrics_.log_validation(
      {.step = job_.state.step,
       .loss = result.loss,
       .bits_per_byte = result.bytes > 0 ? std::optional(result.bits_per_byte) : std::nullopt,
       .tokens_per_second = static_cast<double>(result.tokens) / result.seconds,
       .memory_gib = memory.memory_gib,
       .memory_percent = memory.memory_percent},
      throughput_.seconds());
  if (!record_.first_val_loss) record_.first_val_loss = result.loss;
  record_.val_loss = result.loss;
  if (result.bytes > 0) record_.val_bits_per_byte = result.bits_per_byte;
  throughput_.resume();
}

// False when the data has ended.
bool Loop::one_step() {
  TrainingState& state = job_.state;
  traces_.before_step(state.step + 1);
  const auto batches = [&] {
    RECORD_USER_SCOPE("data");
    return next_step(*job_.loader, job_.accumulation_steps, job_.backend->device(), state);
  }();
  if (!batches) return false;
  if (!last_result_) job_.start.end_of("first batch");
  const double lr = state.peak_lr * state.schedule.factor(state.step + 1 - state.schedule_start);
  state.lr.fill_(lr);
  state.inverse_valid_tokens.fill_(1.0 / static_cast<double>(batches->valid_tokens));
  const StepResult result = captured_ ? captured_->run(batches->micro_batches)
                                      : train_step(state, batches->micro_batches);
  ++state.step;
  traces_.after_step(state.step);
  state.tokens_seen += batches->tokens;
  if (!last_result_) {
    // The first step pays for set-up on every rank; later ones must not hang that long.
    state.mesh.context->traffic.reset();
    const auto timeout_s = static_cast<double>(job_.config.comm.train_timeout_seconds);
    state.mesh.set_timeout(timeout_s);
    if (watch_) watch_->set_timeout(timeout_s);
  }
  const double waited = job_.loader->wait_s();
  throughput_.add_step(batches->tokens / state.mesh.shape.data(), batches->tokens,
                       waited - std::exchange(waited_s_, waited));
  if (metrics_.should_log(state.step)) log_step(result, lr);
  if (!last_result_ && job_.config.metrics.timings) {
    job_.backend->synchronize();
    job_.start.end_of("first step");
    metrics_.clear_progress();
    log::info("Start: {}", job_.start.describe());
  }
  const bool last = state.step == job_.total_steps;
  const auto& validation = job_.config.validation;
  if (job_.evaluation && (state.step == 1 || last || state.step % validation.freq == 0)) validate();
  metrics_.step_done(state.step);
  last_result_ = result;
  if (!last && saving_.due(false)) {
    refuse_divergence(result);
    saving_.after_step(false);
  }
  return true;
}

// What this rank sent per step after the first, by axis and collective.
void Loop::report_traffic() const {
  const int64_t steps = job_.state.step - first_step_;
  if (!job_.config.comm.report || steps <= 0) return;
  log::info("Communication per step of rank {}, averaged over {} steps:", job_.world.rank, steps);
  for (const auto& [key, sum] : job_.state.mesh.context->traffic.sums()) {
    log::info("  {:<13} {:<15} {:>8.1f} calls {:>12}", key.first, key.second,
              static_cast<double>(sum.calls) / static_cast<double>(steps),
              text::bytes(sum.bytes / steps));
  }
}

void Loop::finish(observe::RunStatus status) {
  metrics_.clear_progress();
  traces_.end(job_.state.step);
  record_.status = status;
  record_.end_time = unix_time();
  record_.last_step = job_.state.step;
  record_.tokens_seen = job_.state.tokens_seen;
  record_.average_tokens_per_second = throughput_.average_tokens_per_second();
  record_.training_s += throughput_.seconds();
  record_.peak_memory = std::max(record_.peak_memory, job_.backend->memory().reserved_peak);
  write_record();
  report_traffic();
  for (const auto& line : job_.loader->report().lines()) log::info("{}", line);
  const observe::FinalFacts facts{.record = record_,
                                  .process_s = seconds_since_process_start(),
                                  .startup_s = startup_s_,
                                  .training_s = throughput_.seconds(),
                                  .first_step = first_step_,
                                  .run_folder = job_.config.job.dump_folder,
                                  .metrics_file = metrics_.metrics_path().string()};
  for (const auto& line : observe::final_summary(facts)) log::info("{}", line);
}

std::filesystem::path Loop::comm_trace_file() const {
  const auto& comm = job_.config.comm;
  return std::filesystem::path(job_.config.job.dump_folder) / comm.save_traces_folder /
         fmt::format("{}{}.json", comm.save_traces_file_prefix, job_.world.rank);
}

// For `titan comm-trace`: where this rank stood among the others.
void Loop::watch_collectives() {
  const auto& comm = job_.config.comm;
  // A record of an earlier run must not pass for one of this run.
  std::error_code none;
  std::filesystem::remove(comm_trace_file(), none);
  if (job_.world.size == 1 || comm.mode == "fake_backend" || comm.trace_buf_size == 0) return;
  watch_.emplace(job_.state.mesh.context, comm_trace_file(), job_.world.size,
                 static_cast<double>(comm.init_timeout_seconds));
}

void Loop::write_comm_trace() {
  if (!watch_ || job_.state.mesh.context->recorder.empty()) return;
  const auto& file = watch_->file();
  try {
    watch_->write();
    log::warning(
        "The last collectives of rank {} are in {}; `titan comm-trace {}` compares the ranks",
        job_.world.rank, file.string(), file.parent_path().string());
  } catch (const std::exception& error) {
    log::warning("{}", error.what());  // the failure that led here matters more
  }
}

// Signals reach the ranks at different steps; all stop after the same one.
int Loop::agreed_signal(const StopSignals& signals) const {
  const auto& mesh = job_.state.mesh;
  if (mesh.shape.world() == 1) return signals.received();
  at::Tensor signal = at::tensor({signals.received()}, at::kInt);
  mesh.world.start_all_reduce(signal, comm::Reduce::kMax).wait();
  return signal.item<int>();
}

int Loop::run() {
  const StopSignals signals;
  startup_s_ = seconds_since_process_start();
  job_.start.end_of("checkpoint and records");
  first_step_ = job_.state.step + 1;
  watch_collectives();
  bool more = true;
  try {
    int signal = 0;
    while (job_.state.step < job_.total_steps && (signal = agreed_signal(signals)) == 0 &&
           (more = one_step())) {
    }
    const bool idle = !last_result_.has_value();
    if (!more && idle && job_.state.step == 0) {
      throw Error(
          "[data] the training set ended before the first step — it holds less than one step of {} "
          "tokens",
          job_.config.training.seq_len * job_.config.training.local_batch_size);
    }
    if (signal != 0 && job_.state.step < job_.total_steps) {
      metrics_.clear_progress();
      log::warning("Stopped by {} after step {}", signal == SIGINT ? "SIGINT" : "SIGTERM",
                   job_.state.step);
      if (!idle) refuse_divergence(*last_result_);
      saving_.after_interrupt();
      finish(observe::RunStatus::kInterrupted);
      return static_cast<int>(signal == SIGINT ? ExitCode::kInterrupted : ExitCode::kTerminated);
    }
    if (!more) log::info("The training set ended after {} steps", job_.state.step);
    if (!idle) {
      refuse_divergence(*last_result_);
      saving_.after_step(true);
    }
  } catch (const std::exception& error) {
    metrics_.clear_progress();
    record_.status = observe::RunStatus::kFailed;
    record_.error = error.what();
    record_.end_time = unix_time();
    record_.last_step = job_.state.step;
    write_record();
    write_comm_trace();
    throw;
  }
  finish(observe::RunStatus::kFinished);
  return 0;
}

}  // namespace

int run(Job& job, const RunContext& context) {
  Saving saving(job, context.config_text);
  if (job.config.checkpoint.create_seed_checkpoint) {
    saving.seed_checkpoint();
    return 0;
  }
  const int64_t resumed_step = saving.load();
  if (resumed_step >= job.total_steps) {
    log::info("The checkpoint of step {} is the last of training.steps = {}: nothing is left to do",
              resumed_step, job.total_steps);
    return 0;
  }
  TITAN_CHECK(ops::saved_tensor_hooks_installed(), "another autograd engine replaced titan's");
  const auto record =
      observe::begin_record(job.config.job.dump_folder, run_record(job, context), resumed_step > 0);
  // Every rank has read what an earlier session left before rank 0 writes.
  job.state.mesh.world.barrier();
  if (job.world.rank == 0) observe::write_run_record(job.config.job.dump_folder, record);
  for (const auto& line : observe::startup_summary(startup_facts(job, record)))
    log::info("{}", line);
  return Loop(job, saving, record, resumed_step).run();
}

}  // namespace titan::train
