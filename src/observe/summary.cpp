#include "observe/summary.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"

namespace titan::observe {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string device_line(const StartupFacts& facts) {
  const double gib = static_cast<double>(facts.device_memory) / kGiB;
  if (facts.device_kind == "cuda")
    return fmt::format("CUDA capacity: {} with {:.2f}GiB memory", facts.device_name, gib);
  std::string kind = facts.device_kind;
  for (char& c : kind) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string line =
      fmt::format("{} capacity: {} with {:.2f}GiB memory", kind, facts.device_name, gib);
  if (facts.threads > 0) line += fmt::format(", {} threads", facts.threads);
  return line;
}

std::string flops_line(const FlopsPerToken& flops) {
  return fmt::format("FLOPs per token: {:.3e} forward and backward ({:.0f}% attention)",
                     flops.total(),
                     flops.total() > 0 ? 100 * flops.attention / flops.total() : 0.0);
}

std::string losses_line(const RunRecord& record) {
  std::string line = fmt::format("Final loss: {:.4f}", record.loss);
  if (!record.val_loss) return line;
  line += "  validation loss: ";
  if (record.first_val_loss && *record.first_val_loss > 0) {
    line += fmt::format("{:.4f} -> {:.4f} ({:.0f}% of its start)", *record.first_val_loss,
                        *record.val_loss, 100 * *record.val_loss / *record.first_val_loss);
  } else {
    line += fmt::format("{:.4f}", *record.val_loss);
  }
  if (record.val_bits_per_byte)
    line += fmt::format("  bits per byte: {:.4f}", *record.val_bits_per_byte);
  return line;
}

std::string rate_line(const RunRecord& record) {
  if (!std::isfinite(record.average_tokens_per_second)) return "Average: too few steps to tell";
  std::string line = fmt::format("Average: {} tokens/s per device",
                                 text::with_commas(std::llrint(record.average_tokens_per_second)));
  if (record.peak_flops > 0 && record.flops_per_token > 0) {
    line += fmt::format(", mfu {:.2f}%", 100 * record.average_tokens_per_second *
                                             record.flops_per_token / record.peak_flops);
  }
  if (record.peak_memory > 0) line += ", peak memory " + text::bytes(record.peak_memory);
  return line;
}

std::string time_line(const FinalFacts& facts) {
  const int64_t steps = facts.record.last_step - facts.first_step + 1;
  std::string line =
      fmt::format("{} steps in {} (start-up {}, training {})",
                  text::with_commas(steps < 0 ? 0 : steps), text::duration(facts.process_s),
                  text::duration(facts.startup_s), text::duration(facts.training_s));
  if (facts.record.sessions > 1)
    line += fmt::format("; session {} of this run", facts.record.sessions);
  return line + fmt::format("; {} tokens seen", text::with_commas(facts.record.tokens_seen));
}

}  // namespace

std::vector<std::string> startup_summary(const StartupFacts& facts) {
  std::vector<std::string> lines;
  lines.push_back(device_line(facts));
  lines.push_back(fmt::format("Model {} {} size: {} total parameters", facts.model, facts.flavor,
                              text::with_commas(facts.parameters)));
  lines.push_back(flops_line(facts.flops));
  if (facts.peak_flops > 0) {
    std::string line = fmt::format("Peak FLOPS used for computing MFU: {:.3e}", facts.peak_flops);
    if (!facts.peak_flops_source.empty()) line += " (" + facts.peak_flops_source + ")";
    lines.push_back(line);
  }
  lines.push_back("Memory forecast: " + describe(facts.memory, facts.device_memory));
  lines.push_back(
      fmt::format("Trainer is initialized with local batch size {}, global batch size {}, gradient "
                  "accumulation steps {}, sequence "
                  "length {}, total steps {} (warmup {})",
                  facts.local_batch_size, facts.global_batch_size, facts.accumulation_steps,
                  facts.seq_len, facts.total_steps, facts.warmup_steps));
  lines.push_back(fmt::format("Training starts at step {}", facts.first_step));
  return lines;
}

std::vector<std::string> final_summary(const FinalFacts& facts) {
  std::vector<std::string> lines;
  lines.push_back(time_line(facts));
  lines.push_back(rate_line(facts.record));
  lines.push_back(losses_line(facts.record));
  const auto add_place = [&](const char* what, const std::string& path) {
    if (!path.empty()) lines.push_back(fmt::format("{}: {}", what, path));
  };
  add_place("Metrics", facts.metrics_file);
  add_place("Checkpoint", facts.record.checkpoint_folder);
  add_place("TensorBoard", facts.record.tensorboard_folder);
  if (!facts.metrics_file.empty()) add_place("Report", "titan report " + facts.run_folder);
  switch (facts.record.status) {
    case RunStatus::kFinished:
      lines.emplace_back("Training completed");
      break;
    case RunStatus::kInterrupted:
      lines.push_back(
          fmt::format("Training stopped by a signal after step {}", facts.record.last_step));
      break;
    case RunStatus::kFailed:
      lines.push_back("Training failed: " + facts.record.error);
      break;
    case RunStatus::kRunning:
      break;
  }
  return lines;
}

}  // namespace titan::observe
