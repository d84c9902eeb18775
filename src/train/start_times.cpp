#include "train/start_times.h"

#include <fmt/format.h>

#include "base/clock.h"

namespace titan::train {

void StartTimes::end_of(const char* part) {
  const double now = seconds_since_process_start();
  parts_.emplace_back(part, now - std::exchange(until_, now));
}

std::string StartTimes::describe() const {
  std::string text;
  for (const auto& [part, seconds] : parts_) {
    text += fmt::format("{}{} {:.2f} s", text.empty() ? "" : ", ", part, seconds);
  }
  return fmt::format("{}; {:.2f} s in all", text, until_);
}

}  // namespace titan::train
