#include "train/traces.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"

namespace titan::train {

StepTraces::StepTraces(const config::Profiling& settings, std::filesystem::path folder,
                       int64_t rank, device::Backend& backend)
    : settings_(settings),
      folder_(std::move(folder)),
      rank_(rank),
      backend_(backend),
      profiler_(backend.device().type()) {}

void StepTraces::before_step(int64_t step) {
  if (!settings_.enable_profiling || profiler_.running()) return;
  const int64_t left = settings_.profile_freq - (step - 1) % settings_.profile_freq;
  if (left <= settings_.profiler_active) {
    profiler_.start(folder_ / fmt::format("rank{}_under_way", rank_));
  } else if (left <= settings_.profiler_active + settings_.profiler_warmup) {
    profiler_.warm_up();
  }
}

void StepTraces::after_step(int64_t step) {
  holds_step_ = profiler_.running();
  if (holds_step_ && step % settings_.profile_freq == 0) write(step);
}

void StepTraces::end(int64_t last_step) {
  if (holds_step_ && profiler_.running()) write(last_step);
}

void StepTraces::write(int64_t step) {
  const Stopwatch watch;
  holds_step_ = false;
  backend_.synchronize();  // else the last kernels are missing
  const auto file =
      folder_ / fmt::format("iteration_{}", step) / fmt::format("rank{}_trace.json", rank_);
  profiler_.stop_and_write(file);
  log::info("Wrote the trace of step {} to {} in {:.2f} s", step, file.string(), watch.seconds());
  if (const auto reader = profiler_.device_reader(); !reader.empty()) {
    log::info("The device's own is in {} ({})", (file.parent_path() / file.stem()).string(),
              reader);
  }
}

}  // namespace titan::train
