// Parameters, gradients and optimizer states in host memory (training.enable_cpu_offload): copies
// between it and the device, on a stream of their own, so that they run under the computation.
// On the CPU a "device" copy is a second tensor: the same path, without streams.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <memory>
#include <optional>

#include "comm/group.h"

namespace titan::parallel {

class HostCopies {
 public:
  // Bytes are counted in context's traffic, axis "host".
  HostCopies(at::Device device, std::shared_ptr<comm::RankContext> context);

  // Zeros in host memory that the device reads and writes without a detour (page-locked).
  at::Tensor allocate(int64_t numel, at::ScalarType dtype) const;
  // Both only within a CopyScope; neither waits. `host` stays untouched until the scope's mark.
  at::Tensor to_device(const at::Tensor& host) const;
  void to_host(at::Tensor& host, const at::Tensor& x) const;

 private:
  friend class CopyScope;
  at::Device device_;
  std::optional<c10::Stream> stream_;  // nullopt: the device works in order
  std::shared_ptr<comm::RankContext> context_;
};

// A point in the stream of the copies; of nothing by default.
class CopyMark {
 public:
  // What the current stream is given from now on runs after it.
  void order();
  // Until it is reached.
  void wait_on_host();

 private:
  friend class CopyScope;
  std::shared_ptr<c10::Event> event_;
};

// While it lives, the work of this thread goes to the stream of the copies, after all that the
// stream current until then has been given. Memory that is allocated within is given back within a
// later scope at the earliest, which is behind its last use.
class CopyScope {
 public:
  explicit CopyScope(const HostCopies& copies);
  CopyMark mark() const;

 private:
  std::optional<c10::Stream> stream_;
  std::optional<c10::StreamGuard> guard_;
};

}  // namespace titan::parallel
