// Counts what the collectives of one rank move, by axis and kind: the figures behind
// --comm-report, and what tests hold against the textbook minimum.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace titan::comm {

class Traffic {
 public:
  struct Sum {
    int64_t calls = 0;
    int64_t bytes = 0;  // that this rank sends in a ring: all-gather (n-1)/n of the result, …
  };

  void add(const std::string& axis, const char* collective, int64_t bytes);
  // By (axis, collective), since the start or the last reset.
  std::map<std::pair<std::string, std::string>, Sum> sums() const;
  void reset();

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Sum> sums_;
};

}  // namespace titan::comm
