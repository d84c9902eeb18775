#include "device/backend.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace titan::device {

Graph::~Graph() = default;

void Backend::limit_memory(double /*fraction*/) {}

std::unique_ptr<Graph> Backend::make_graph() { return nullptr; }

std::string Backend::graph_problem() const { return "a " + name() + " has no graphs"; }

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

c10::Stream new_stream(c10::Device device, bool high_priority) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  if (device.is_cpu()) return guard.getStream(device);  // the CPU has one stream and no pool
  return guard.getStreamFromGlobalPool(device, high_priority);
}

}  // namespace titan::device
