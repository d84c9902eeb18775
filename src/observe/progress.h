// How far a run is and how long it still takes. On a terminal a status line is kept below the log
// and drawn over itself; elsewhere a plain line now and then says the same. TorchTitan's metric
// line itself carries nothing extra, so readers of it see what they know.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"

namespace titan::observe {

// Estimates the time left from the pace of recent steps: the mean over a window that grows up to 50
// steps, without the process's first step, which pays for warming up.
class TimeLeft {
 public:
  explicit TimeLeft(int64_t total_steps) : total_steps_(total_steps) {}
  // `now_s` is any steady clock; steps come in order.
  void step_done(int64_t step, double now_s);
  // nullopt until two steps are done.
  std::optional<double> seconds() const;

 private:
  int64_t total_steps_;
  int64_t step_ = 0;
  double last_s_ = 0;
  double step_s_ = 0;  // smoothed
  int64_t seen_ = 0;
};

// "step 240/2,400 (10.0%)  eta 2m42s  elapsed 18.3s"
std::string progress_text(int64_t step, int64_t total_steps, std::optional<double> eta_s,
                          double elapsed_s);

struct ProgressOptions {
  int64_t total_steps = 0;
  bool on_terminal = false;  // of standard output
  double line_every_s = 60;  // without a terminal; the first line comes after a sixth of it
};

class Progress {
 public:
  explicit Progress(const ProgressOptions& options)
      : options_(options), time_left_(options.total_steps) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // After every step; draws or logs when it is time to.
  void step_done(int64_t step);
  // Takes the status line off the terminal. Whatever is printed next starts at the line's
  // beginning.
  void clear();
  std::optional<double> eta_s() const { return time_left_.seconds(); }

 private:
  ProgressOptions options_;
  TimeLeft time_left_;
  Stopwatch clock_;
  double next_s_ = -1;  // of clock_: when to draw or log next
  bool drawn_ = false;
};

}  // namespace titan::observe
