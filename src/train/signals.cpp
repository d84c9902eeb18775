#include "train/signals.h"

#include <csignal>

namespace titan::train {
namespace {

// A handler can only reach a global of this type.
volatile std::sig_atomic_t received_signal = 0;

extern "C" void remember_signal(int signal) {
  received_signal = signal;
  std::signal(signal, SIG_DFL);
}

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  std::signal(SIGINT, remember_signal);
  std::signal(SIGTERM, remember_signal);
}

StopSignals::~StopSignals() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int StopSignals::received() const { return received_signal; }

}  // namespace titan::train
