#include "device/npu/process_group.h"

#include <torch_npu/csrc/distributed/ProcessGroupHCCL.hpp>

#include "base/error.h"
#include "device/npu/error_codes.h"

namespace titan::device::npu {

using Hccl = c10d_npu::ProcessGroupHCCL;

c10::intrusive_ptr<c10d::Backend> make_hccl_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const ProcessGroupOptions& options) {
  auto hccl = Hccl::Options::create();
  hccl->opTimeout = std::chrono::milliseconds(static_cast<int64_t>(options.timeout_s * 1000));
  try {
    return c10::make_intrusive<Hccl>(store, options.rank, options.size, hccl);
  } catch (const std::exception& error) {
    const std::string what = error.what();
    throw EnvironmentError("[comm] no HCCL group of {} ranks: {}", options.size,
                           explain_error(what).value_or(what.substr(0, what.find('\n'))));
  }
}

void close_hccl_group(c10d::Backend& group) { static_cast<Hccl&>(group).shutdown(); }

}  // namespace titan::device::npu
