// A capture records what is launched on a stream, and on the streams that come to wait for its
// events, instead of running it. A graph is that record: per captured stream a list of tasks, and
// which tasks of other streams each must come after, as one count per stream. Replay runs the lists
// on as many streams again, with the same waits and no others, so a wait that was forgotten under
// capture shows in the replay as it would on a chip.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/stream.h"

namespace cannemu {

inline constexpr int kCaptureError = 107000;

class Capture {
 public:
  using Clock = std::vector<size_t>;  // of each captured stream, how many of its tasks come before

  explicit Capture(Stream& origin);
  bool active() const { return active_; }
  static bool any_active();  // in this process
  void invalidate() { valid_ = false; }
  bool valid() const { return valid_; }
  void add(Stream& stream, const char* name, Task task);
  Clock record(Stream& stream);                  // an event on a captured stream
  int wait(Stream& stream, const Clock& event);  // may bring `stream` into the capture
  int end(Stream& origin);                       // error when a stream was not joined again

  int replay(void* stream);
  size_t tasks() const;
  std::string json() const;

 private:
  struct Node {
    std::string name;
    Task task;
    Clock after;
  };
  struct Line {
    Stream* stream;  // that was captured
    Clock clock;
    std::vector<Node> nodes;
    Stream* replay =
        nullptr;  // its own in every replay; of the first line, the stream that replays
  };
  size_t line_of(Stream& stream);

  mutable std::mutex mutex_;
  std::vector<Line> lines_;
  bool active_ = true, valid_ = true;
};

}  // namespace cannemu
