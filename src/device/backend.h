// The contract between titan and a kind of device. One Backend drives one device of this process
// (its rank's GPU, NPU or the CPU); everything vendor-specific lives behind it in device/<vendor>/.
// The CPU backend is the documented example: read it beside this file.
//
// A Backend is made by open_backend() (device/registry.h) before anything else touches devices or
// seeds, is used from one thread unless a member says otherwise, and lives until the process ends
// its work on the device.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Stream.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace titan::device {

struct ProcessGroupOptions {
  int rank = 0, size = 1;  // in the group
  double timeout_s = 300;  // of a collective
  // Address of this host that the other ranks can reach; for groups that speak TCP themselves.
  std::string listen_address = "127.0.0.1";
};

// Bytes of device memory. A backend without a caching allocator (CPU) reports the process's
// resident set in both pairs.
struct MemoryStats {
  int64_t allocated = 0;       // held by live tensors now
  int64_t allocated_peak = 0;  // its maximum since the last reset_peak_memory()
  int64_t reserved = 0;        // held by the allocator now, cached blocks included
  int64_t reserved_peak = 0;
  int64_t capacity = 0;  // what this process could use at most
  int64_t alloc_retries =
      0;  // times the allocator had to give cached blocks back before it found memory
  int64_t out_of_memory = 0;  // failed allocations
};

// The rate that MFU is a share of.
struct PeakFlops {
  double per_second = 0;
  std::string source;  // "table: H200, dense bf16", "measured: …", "unknown GPU 'X', A100's value"
};

// Work of the device that is recorded once and launched as one piece from then on. What is
// allocated while it is recorded comes from a pool of its own, which lives until reset().
class Graph {
 public:
  virtual ~Graph();
  // Records what the calling thread launches on the current stream, which must not be the default
  // one, and on the streams that come to wait for it. Nothing runs. Other threads may go on calling
  // the device.
  virtual void begin() = 0;
  // Throws when something in between cannot be recorded; reset() makes the object usable again.
  virtual void end() = 0;
  // Launches all of it on the current stream; waits for nothing.
  virtual void replay() = 0;
  // Forgets what was recorded and frees the pool. The device must have ended its replays.
  virtual void reset() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // "cpu", "cuda" or "npu": the name in [device] name and in messages.
  virtual std::string name() const = 0;
  // Devices of this kind that the process may use; at least 1.
  virtual int count() const = 0;
  // Makes device `index` the current one of the calling thread and of this Backend. Throws Error
  // when out of range.
  virtual void select(int index) = 0;
  // Where tensors go: the selected device.
  virtual c10::Device device() const = 0;
  // The vendor's name of the selected device ("NVIDIA H200", "AMD EPYC 9654").
  virtual std::string device_name() const = 0;
  // One phrase for logs and doctor: name, memory, versions of driver and libraries, threads.
  virtual std::string description() const = 0;

  // Seeds libtorch's default generators of the CPU and of every device of this kind.
  virtual void seed(uint64_t seed) = 0;
  // Bit-equal results from run to run on the same machine, at a cost in speed. Call before the
  // first operation on the device: some libraries read the setting once. An operator without a
  // deterministic form then throws.
  virtual void set_deterministic(bool on) = 0;
  // Waits until all work queued on the selected device has ended. Errors of earlier work surface
  // here.
  virtual void synchronize() = 0;

  virtual MemoryStats memory() const = 0;
  // Lets the allocator take at most this share of the device's memory, (0, 1]. Without effect where
  // the allocator has no such limit.
  virtual void limit_memory(double fraction);
  virtual void reset_peak_memory() = 0;
  // Gives cached, unused blocks back to the driver. Slow: never in a step.
  virtual void release_cached_memory() = 0;
  // Bytes that are free on the device right now, other processes counted.
  virtual int64_t free_memory() const = 0;

  // Dense rate of one device for matrix products in `dtype`. May measure (some 10 ms) on the first
  // call.
  virtual PeakFlops peak_flops(c10::ScalarType dtype) = 0;

  // Streams and events are c10's generic ones (c10::Stream, c10::Event, c10::StreamGuard), which
  // work for every device whose backend is open. False: work runs in order where it is called,
  // streams are all the same one, and a c10::Event must not be recorded.
  virtual bool has_streams() const = 0;

  // An empty graph; null where graph_problem() says why there is none.
  virtual std::unique_ptr<Graph> make_graph();
  // One phrase: why this device cannot record graphs now; empty when it can.
  virtual std::string graph_problem() const;

  // Joins the group of `options.size` ranks that meet in `store`, for tensors of this device: Gloo,
  // NCCL or HCCL. Collective. Throws EnvironmentError when the library is missing or a rank does
  // not come.
  virtual c10::intrusive_ptr<c10d::Backend> make_process_group(
      const c10::intrusive_ptr<c10d::Store>& store, const ProcessGroupOptions& options) = 0;

  // Computes something whose result is known on the selected device. nullopt: healthy; else one
  // line with the reason.
  virtual std::optional<std::string> health_check() = 0;
};

// The stream that work of the calling thread goes to on `device`.
c10::Stream current_stream(c10::Device device);
// A stream from the device's pool; the default stream where has_streams() is false.
c10::Stream new_stream(c10::Device device, bool high_priority = false);

}  // namespace titan::device
