#include "comm/traffic.h"

namespace titan::comm {

void Traffic::add(const std::string& axis, const char* collective, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Sum& sum = sums_[{axis, collective}];
  ++sum.calls;
  sum.bytes += bytes;
}

std::map<std::pair<std::string, std::string>, Traffic::Sum> Traffic::sums() const {
  const std::lock_guard lock(mutex_);
  return sums_;
}

void Traffic::reset() {
  const std::lock_guard lock(mutex_);
  sums_.clear();
}

}  // namespace titan::comm
