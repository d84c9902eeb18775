// How fast the run goes: tokens, time and waiting for data between two logged steps, and the
// average over the run.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "observe/metrics.h"

namespace titan::observe {

struct ThroughputOptions {
  double flops_per_token = 0;       // forward and backward (flops.h); 0: unknown
  double peak_flops = 0;            // of one device; 0: unknown, mfu stays NaN
  int64_t devices_per_replica = 1;  // cp * tp * pp: they share the tokens of one data-parallel rank
  int64_t tokens_seen = 0;          // by the run before this process (resume)
};

// Not thread-safe; one per process. The clock starts at construction: make it right before the
// first step.
class Throughput {
 public:
  explicit Throughput(const ThroughputOptions& options)
      : options_(options), tokens_seen_(options.tokens_seen) {}

  // After each step. local_tokens: label tokens of this rank's batches of the step; global_tokens:
  // of all ranks.
  void add_step(int64_t local_tokens, int64_t global_tokens, double data_wait_s);

  // Fills tokens_per_second, tflops, mfu, data_wait_s, end_to_end_s, time_s and tokens_seen with
  // the figures since the last fill() and starts a new interval. time_s counts from construction,
  // pauses included.
  void fill(StepMetrics& metrics);

  // Around work that is no training (validation): its time is left out of all rates. Pauses do not
  // nest.
  void pause();
  void resume();

  // Tokens per second and device over all steps but the process's first, which pays for warming up;
  // NaN before two steps.
  double average_tokens_per_second() const;
  double seconds() const { return clock_.seconds(); }
  int64_t tokens_seen() const { return tokens_seen_; }

 private:
  double active_s() const { return clock_.seconds() - paused_s_; }

  ThroughputOptions options_;
  Stopwatch clock_;
  double paused_s_ = 0;
  double pause_begin_s_ = -1;    // of clock_; negative: not paused
  double interval_begin_s_ = 0;  // of active_s(), as are the two below
  double first_step_end_s_ = 0;
  double last_step_end_s_ = 0;
  int64_t interval_tokens_ = 0;
  int64_t interval_steps_ = 0;
  double interval_wait_s_ = 0;
  int64_t steps_ = 0;
  int64_t steady_tokens_ = 0;  // of the steps after the first
  int64_t tokens_seen_;
};

}  // namespace titan::observe
