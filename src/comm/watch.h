// Keeps a rank's record of collectives from being lost when its process is ended from outside the
// caller: the libraries of accelerators end a process from a thread of their own when a collective
// runs out of time. A watch writes the record when that happens, with one message that names the
// collective; and, whatever the library does then, as soon as no collective was issued or waited
// for during half of the time-out. It takes no part in a collective and no lock that others wait
// for.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "comm/group.h"

namespace titan::comm {

// What a library says of a collective that ran out of time.
struct TimedOut {
  int64_t sequence = 0;  // in its group, counted from 1
  double ran_s = 0;
};
// Of "WorkHCCL(SeqNum=9, …) ran for 5128 milliseconds"; nullopt when the text says no such thing.
std::optional<TimedOut> read_timed_out(const std::string& text);

// At most one lives in a process, between the making of the device's backend and its end.
class Watch {
 public:
  Watch(std::shared_ptr<RankContext> context, std::filesystem::path file, int64_t ranks,
        double timeout_s);
  ~Watch();  // removes what was written for a silence that has ended
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void set_timeout(double seconds);
  // Writes the record of a run that has failed. Throws EnvironmentError.
  void write();
  const std::filesystem::path& file() const { return file_; }

  // What the process says when a thread that nobody can catch threw `text`; writes the record
  // first. nullopt: `text` is not about a collective.
  std::optional<std::string> last_words(const std::string& text);

 private:
  void look();

  const std::shared_ptr<RankContext> context_;
  const std::filesystem::path file_;
  const int64_t ranks_;
  std::mutex mutex_;  // of what follows and of the file
  double timeout_s_;
  double written_for_ = -1;  // the last event before the silence that the file was written for
  bool failed_ = false;      // the file stays
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace titan::comm
