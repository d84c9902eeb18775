#include "observe/throughput.h"

#include "base/error.h"

namespace titan::observe {

void Throughput::add_step(int64_t local_tokens, int64_t global_tokens, double data_wait_s) {
  const double now = active_s();
  if (steps_ == 0) {
    first_step_end_s_ = now;
  } else {
    steady_tokens_ += local_tokens;
  }
  last_step_end_s_ = now;
  ++steps_;
  ++interval_steps_;
  interval_tokens_ += local_tokens;
  interval_wait_s_ += data_wait_s;
  tokens_seen_ += global_tokens;
}

void Throughput::fill(StepMetrics& metrics) {
  const double now = active_s();
  const double span = now - interval_begin_s_;
  metrics.time_s = clock_.seconds();
  metrics.tokens_seen = tokens_seen_;
  if (interval_steps_ > 0 && span > 0) {
    const auto steps = static_cast<double>(interval_steps_);
    const double replica_share = span * static_cast<double>(options_.devices_per_replica);
    metrics.tokens_per_second = static_cast<double>(interval_tokens_) / replica_share;
    metrics.data_wait_s = interval_wait_s_ / steps;
    metrics.end_to_end_s = span / steps;
    if (options_.flops_per_token > 0) {
      const double flops = options_.flops_per_token * metrics.tokens_per_second;
      metrics.tflops = flops / 1e12;
      if (options_.peak_flops > 0) metrics.mfu = 100 * flops / options_.peak_flops;
    }
  }
  interval_begin_s_ = now;
  interval_tokens_ = 0;
  interval_steps_ = 0;
  interval_wait_s_ = 0;
}

void Throughput::pause() {
  TITAN_CHECK(pause_begin_s_ < 0, "Throughput is paused twice");
  pause_begin_s_ = clock_.seconds();
}

void Throughput::resume() {
  TITAN_CHECK(pause_begin_s_ >= 0, "Throughput goes on without a pause");
  paused_s_ += clock_.seconds() - pause_begin_s_;
  pause_begin_s_ = -1;
}

double Throughput::average_tokens_per_second() const {
  const double span = last_step_end_s_ - first_step_end_s_;
  if (steps_ < 2 || span <= 0) return kUnknown;
  return static_cast<double>(steady_tokens_) /
         (span * static_cast<double>(options_.devices_per_replica));
}

}  // namespace titan::observe
