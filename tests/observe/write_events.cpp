// Writes a TensorBoard event file for event_file_test.py: write_events FOLDER
#include "observe/event_file.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  titan::observe::EventFile events(argv[1]);
  for (int64_t step = 1; step <= 300; ++step) {
    const auto x = static_cast<double>(step);
    events.add(step, {{"loss_metrics/global_avg_loss", 8.0 / x}, {"mfu(%)", x}, {"lr", 1e-3 * x}});
  }
  events.add(int64_t{1} << 40, {{"n_tokens_seen", 1e12}, {"\xE6\x8D\x9F\xE5\xA4\xB1", -0.5}});
  return 0;
}
