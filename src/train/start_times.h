// Where the seconds between the command and the end of the first step go: `titan train --timings`.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace titan::train {

// The parts of a start, one after another from the moment the kernel started the process.
class StartTimes {
 public:
  // The time since the last call, or since the process started, belongs to `part`.
  void end_of(const char* part);
  // "program 0.05 s, configuration 0.01 s, …; 1.47 s in all"
  std::string describe() const;

 private:
  std::vector<std::pair<const char*, double>> parts_;  // name, seconds
  double until_ = 0;                                   // since the process started
};

}  // namespace titan::train
