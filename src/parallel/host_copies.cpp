#include "parallel/host_copies.h"

#include "base/error.h"
#include "device/backend.h"

namespace titan::parallel {

using at::Tensor;

HostCopies::HostCopies(at::Device device, std::shared_ptr<comm::RankContext> context)
    : device_(device), context_(std::move(context)) {
  if (!device.is_cpu()) stream_ = device::new_stream(device);
}

Tensor HostCopies::allocate(int64_t numel, at::ScalarType dtype) const {
  const auto options = at::TensorOptions(dtype).device(at::kCPU);
  const Tensor host = at::zeros({numel}, options);
  return device_.is_cpu() ? host : host.pin_memory();
}

Tensor HostCopies::to_device(const Tensor& host) const {
  context_->traffic.add("host", "copy to device", static_cast<int64_t>(host.nbytes()));
  return host.to(host.options().device(device_), /*non_blocking=*/true, /*copy=*/true);
}

void HostCopies::to_host(Tensor& host, const Tensor& x) const {
  TITAN_CHECK(host.is_cpu() && host.sizes() == x.sizes(),
              "a copy of {} elements to {} in host memory", x.numel(), host.numel());
  context_->traffic.add("host", "copy to host", static_cast<int64_t>(host.nbytes()));
  host.copy_(x, /*non_blocking=*/true);
  if (stream_) x.record_stream(*stream_);
}

void CopyMark::order() {
  if (!event_) return;
  event_->block(device::current_stream(event_->device()));
  event_.reset();
}

void CopyMark::wait_on_host() {
  if (!event_) return;
  event_->synchronize();
  event_.reset();
}

CopyScope::CopyScope(const HostCopies& copies) : stream_(copies.stream_) {
  if (!stream_) return;
  c10::Event before(stream_->device_type());
  before.record(device::current_stream(stream_->device()));
  before.block(*stream_);
  guard_.emplace(*stream_);
}

CopyMark CopyScope::mark() const {
  CopyMark mark;
  if (!stream_) return mark;
  mark.event_ = std::make_shared<c10::Event>(stream_->device_type());
  mark.event_->record(*stream_);
  return mark;
}

}  // namespace titan::parallel
