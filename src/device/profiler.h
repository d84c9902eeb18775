// Traces of what a thread does: operators, collectives, named scopes (RECORD_USER_SCOPE), and on an
// accelerator its kernels, by libtorch's profiler. One trace at a time in a process.
#pragma once

#include <c10/core/Device.h>

#include <filesystem>

namespace titan::device {

class Profiler {
 public:
  explicit Profiler(c10::DeviceType device) : device_(device) {}
  // A trace under way is dropped.
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Wakes the device's tracing, which is slow, ahead of start(). Optional.
  void warm_up();
  // Traces the calling thread from here on, and the backward passes that it starts.
  void start();
  // Ends the trace and writes it in Chrome's format (chrome://tracing, Perfetto) at once and whole;
  // folders are made. From the thread that called start(). Throws EnvironmentError when the file
  // cannot be written.
  void stop_and_write(const std::filesystem::path& file);
  bool running() const { return running_; }

 private:
  c10::DeviceType device_;
  bool warm_ = false;
  bool running_ = false;
};

}  // namespace titan::device
