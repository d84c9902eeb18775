// Traces of what a thread does: operators, collectives, named scopes (RECORD_USER_SCOPE), and on an
// accelerator its kernels, by libtorch's profiler. Where the device has a profiler of its own
// (tracing.h), that one runs beside it and gets the scopes of all threads. One trace at a time in a
// process.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <string>

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
  // Traces the calling thread from here on, and the backward passes that it starts. A device's own
  // profiler writes to `device_folder`, which is made; empty: it does not run.
  void start(const std::filesystem::path& device_folder = {});
  // Ends the trace and writes it in Chrome's format (chrome://tracing, Perfetto) at once and whole;
  // folders are made. What the device's profiler has written goes beside it, into a folder of the
  // same name without the extension. From the thread that called start(). Throws EnvironmentError
  // when the file cannot be written.
  void stop_and_write(const std::filesystem::path& file);
  bool running() const { return running_; }
  // What reads that folder; empty without one.
  std::string device_reader() const;

 private:
  void stop_device();

  c10::DeviceType device_;
  bool warm_ = false;
  bool running_ = false;
  std::filesystem::path device_folder_;  // empty: the device's own profiler is not on
  uint64_t scopes_ = 0;                  // handle of what hands it the scopes
};

}  // namespace titan::device
