#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/error.h"
#include "device/cuda/process_group.h"

namespace titan::device {

c10::intrusive_ptr<c10d::Backend> make_nccl_group(const c10::intrusive_ptr<c10d::Store>&,
                                                  const ProcessGroupOptions&) {
  throw EnvironmentError(
      "[comm] this build has no NCCL: nccl.h was not found — install the NCCL headers (the "
      "nvidia-nccl wheel of your torch has them) and build again");
}

}  // namespace titan::device
