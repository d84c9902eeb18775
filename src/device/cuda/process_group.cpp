#include "device/cuda/process_group.h"

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "base/error.h"

namespace titan::device {

c10::intrusive_ptr<c10d::Backend> make_nccl_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const ProcessGroupOptions& options) {
  auto nccl = c10d::ProcessGroupNCCL::Options::create();
  nccl->timeout = std::chrono::milliseconds(static_cast<int64_t>(options.timeout_s * 1000));
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, options.rank, options.size, nccl);
}

}  // namespace titan::device
