#include "runtime/fault.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/report.h"
#include "settings.h"

namespace cannemu {
namespace {

struct Order {
  std::string kind;
  std::string name;  // empty: any
  long at = 1;
  long seen = 0;
};

std::atomic<bool> lost{false};
std::atomic<bool> any{false};
std::mutex mutex;

std::vector<Order> parse(std::string_view text) {
  const char* rank = std::getenv("RANK");
  std::vector<Order> orders;
  while (!text.empty()) {
    std::string_view one = text.substr(0, text.find(';'));
    text.remove_prefix(one.size() < text.size() ? one.size() + 1 : one.size());
    if (size_t slash = one.find("/rank"); slash != one.npos) {
      if (std::string_view(rank ? rank : "0") != one.substr(slash + 5)) continue;
      one = one.substr(0, slash);
    }
    Order order;
    if (size_t mark = one.find('@'); mark != one.npos) {
      order.at = std::strtol(std::string(one.substr(mark + 1)).c_str(), nullptr, 10);
      one = one.substr(0, mark);
    }
    if (size_t mark = one.find(':'); mark != one.npos) {
      order.name = one.substr(mark + 1);
      one = one.substr(0, mark);
    }
    order.kind = one;
    if (!order.kind.empty()) orders.push_back(order);
  }
  return orders;
}

std::vector<Order>& orders() {
  static auto* all = new std::vector<Order>(parse(settings().fault));
  return *all;
}

}  // namespace

bool fault_now(std::string_view kind, std::string_view name) {
  static const bool from_start = (any = any || !orders().empty());
  if (!from_start && !any) return false;
  std::lock_guard lock(mutex);
  bool now = false;
  for (Order& order : orders()) {
    if (order.kind != kind || (!order.name.empty() && order.name != name)) continue;
    ++order.seen;
    // A full device stays full: allocators try again.
    now |= kind.ends_with("oom") ? order.seen >= order.at : order.seen == order.at;
  }
  return now;
}

bool device_lost() { return lost; }
void lose_device() { lost = true; }

}  // namespace cannemu

extern "C" void cannemu_set_fault(const char* text) {
  std::lock_guard lock(cannemu::mutex);
  cannemu::orders() = cannemu::parse(text);
  cannemu::any = true;
  cannemu::lost = false;
}
