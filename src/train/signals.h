// SIGINT and SIGTERM ask a run to stop after the step it is in; a second one ends it at once.
#pragma once

namespace titan::train {

class StopSignals {
 public:
  // Installs the handlers; the destructor puts the old ones back. One at a time per process.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // 0, SIGINT or SIGTERM.
  int received() const;
};

}  // namespace titan::train
