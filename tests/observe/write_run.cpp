// Writes a run folder as training would, through the same classes, for the browser test and for
// looking at the report:
//   write_run FOLDER [STEPS]
// The curves follow what a small model on a dictionary does; everything is a function of the step,
// so runs are equal.
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "base/log.h"
#include "observe/metrics_logger.h"
#include "observe/run_record.h"

namespace titan::observe {
namespace {

// A repeatable value in [-1, 1] for a step.
double noise(int64_t step, int64_t stream) {
  const double x =
      std::sin(static_cast<double>(step) * 12.9898 + static_cast<double>(stream) * 78.233) *
      43758.5453;
  return 2 * (x - std::floor(x)) - 1;
}

double smooth_loss(int64_t step) {
  const auto x = static_cast<double>(step);
  return 3.35 + 4.29 * std::exp(-x / 90) * 0.55 + 4.29 * 0.45 / std::pow(1 + x / 60, 0.62);
}

StepMetrics metrics_at(int64_t step, int64_t steps) {
  const auto x = static_cast<double>(step);
  StepMetrics m;
  m.step = step;
  m.loss = smooth_loss(step) + 0.11 * noise(step, 1) + (step == 1210 ? 1.4 : 0);
  m.max_loss = m.loss;
  m.grad_norm = 0.75 + 2.2 * std::exp(-x / 120) + 0.12 * noise(step, 2) + (step == 1210 ? 2.6 : 0);
  const double warmup = std::min(1.0, x / 50);
  m.lr =
      4e-3 * warmup * (0.05 + 0.475 * (1 + std::cos(3.14159265 * x / static_cast<double>(steps))));
  m.tokens_per_second =
      step == 1 ? 2100 : 13374 * (1 + 0.03 * noise(step, 3)) * (step % 400 < 20 ? 0.82 : 1);
  m.tflops = m.tokens_per_second * 7.02e6 / 1e12;
  m.mfu = 100 * m.tokens_per_second * 7.02e6 / 1.9e11;
  m.memory_gib = 0.412 + 0.05 * (1 - std::exp(-x / 300));
  m.memory_percent = 100 * m.memory_gib / 23.4;
  m.end_to_end_s = 1024 / m.tokens_per_second;
  m.data_wait_s = 0.0004 + 0.0003 * std::abs(noise(step, 4)) + (step == 1 ? 0.02 : 0);
  m.time_s = 0.4 + x * 1024 / 13200;
  m.tokens_seen = 1024 * step;
  return m;
}

RunRecord record_of(int64_t steps) {
  RunRecord record;
  record.description = "quickstart: a small Llama on a <dictionary>";
  record.command = "titan train configs/quickstart.toml --training.steps " + std::to_string(steps);
  record.config =
      "[model]\nname = \"llama3\"\nflavor = \"quickstart\"\n\n[training]\nlocal_batch_size = "
      "8\nseq_len = 128\n"
      "steps = " +
      std::to_string(steps) + "\n# </script> & <b>not markup</b>\n";
  record.versions = {{"titan", "0.1.0"}, {"torch", "2.11.0+cpu"}, {"compiler", "GNU 12.2.0"}};
  record.start_time = 1796000000;
  record.device_kind = "cpu";
  record.device_name = "AMD EPYC 9654";
  record.device_memory = int64_t{24} << 30;
  record.threads = 2;
  record.peak_flops = 1.9e11;
  record.peak_flops_source = "measured";
  record.model = "llama3 quickstart";
  record.model_sizes = {
      {"dim", "128"}, {"layers", "4"}, {"heads", "4"}, {"hidden", "352"}, {"vocabulary", "2,048"}};
  record.parameters = 1065600;
  record.flops_per_token = 7.02e6;
  record.dtype = "float32";
  record.total_steps = steps;
  record.global_batch_size = 8;
  record.seq_len = 128;
  record.dataset = "gcide.train.txt";
  return record;
}

void write_run(const std::filesystem::path& folder, int64_t steps) {
  RunRecord record = record_of(steps);
  write_run_record(folder, record);
  MetricsLogger logger(
      {.run_folder = folder, .log_freq = 10, .total_steps = steps, .enable_tensorboard = true});
  for (int64_t step = 1; step <= steps; ++step) {
    if (!logger.should_log(step)) continue;
    const StepMetrics m = metrics_at(step, steps);
    logger.log_step(m);
    if (step != 1 && step % 200 != 0 && step != steps) continue;
    const double loss = smooth_loss(step) + 0.06 + 0.01 * noise(step, 5);
    logger.log_validation({.step = step,
                           .loss = loss,
                           .bits_per_byte = loss / 0.693147 / 2.59,
                           .tokens_per_second = 41200,
                           .memory_gib = m.memory_gib,
                           .memory_percent = 2},
                          m.time_s);
    if (!record.first_val_loss) record.first_val_loss = loss;
    record.val_loss = loss;
    record.val_bits_per_byte = loss / 0.693147 / 2.59;
    record.loss = m.loss;
    record.tokens_seen = m.tokens_seen;
    record.training_s = m.time_s;
  }
  record.status = RunStatus::kFinished;
  record.last_step = steps;
  record.end_time = record.start_time + record.training_s;
  record.average_tokens_per_second = 13218;
  record.peak_memory = 496 << 20;
  record.checkpoint_folder = (folder / "checkpoint" / ("step-" + std::to_string(steps))).string();
  record.tensorboard_folder = logger.tensorboard_path().string();
  write_run_record(folder, record);
  std::ofstream(folder / kGeneratedTextName)
      << "Dromond \\Drom\"ond\\, n. [OF. dromont.]\n   A large vessel of war used in the <Middle> "
         "Ages; also, a ship of "
         "burden & state.\n\nDwell \\Dwell\\, v. i. To abide as a permanent resident, or for a "
         "time; to live in a place.\n";
}

}  // namespace
}  // namespace titan::observe

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  titan::log::configure({.level = titan::log::Level::kError, .prefix = ""});
  titan::observe::write_run(argv[1], argc > 2 ? std::atoll(argv[2]) : 2400);
  return 0;
}
