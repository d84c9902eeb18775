#include "device/cpu/process_group.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/env.h"
#include "base/error.h"

namespace titan::device {

c10::intrusive_ptr<c10d::Backend> make_gloo_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const ProcessGroupOptions& options) {
  using Gloo = c10d::ProcessGroupGloo;
  const std::chrono::milliseconds timeout(static_cast<int64_t>(options.timeout_s * 1000));
  auto gloo = Gloo::Options::create(timeout);
  gloo->threads = 2;
  const auto interface = env::get("GLOO_SOCKET_IFNAME");
  try {
    gloo->devices.push_back(interface ? Gloo::createDeviceForInterface(*interface)
                                      : Gloo::createDeviceForHostname(options.listen_address));
    return c10::make_intrusive<Gloo>(store, options.rank, options.size, gloo);
  } catch (const std::exception& error) {
    const std::string what = error.what();
    throw EnvironmentError(
        "[comm] no Gloo group of {} ranks from {}: {} — check that the hosts reach each other on "
        "any port, or name the interface in GLOO_SOCKET_IFNAME",
        options.size, interface.value_or(options.listen_address), what.substr(0, what.find('\n')));
  }
}

}  // namespace titan::device
