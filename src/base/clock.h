// Time. Durations come from the steady clock, names of folders and log lines from the wall clock.
#pragma once

#include <chrono>
#include <string>

namespace titan {

// Seconds since it was made or last reset, steady clock.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  void reset() { begin_ = std::chrono::steady_clock::now(); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Seconds since this process was started by the kernel (exec), so that loading libtorch is counted
// too.
double seconds_since_process_start();

// Local time as "20261130-2015", the form of TensorBoard run folders.
std::string timestamp_for_folder();
// Seconds since 1970, with fraction.
double unix_time();

}  // namespace titan
