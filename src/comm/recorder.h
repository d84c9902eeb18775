// The last collectives of one rank, for the question which rank is behind when a job hangs: all
// ranks of a group issue the same ones in the same order, so the records of two ranks side by side
// show where they part.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace titan::comm {

class Recorder {
 public:
  // Keeps the last `capacity` collectives; 0 keeps none.
  explicit Recorder(int64_t capacity = 0) : capacity_(capacity) {}
  void set_capacity(int64_t capacity);

  // A collective is issued; the ticket names it to the next two. `collective` and `phase` are
  // literals.
  int64_t issued(const std::string& axis, const char* collective, int64_t bytes, int64_t step,
                 const char* phase);
  // The caller begins to wait for it.
  void waits_for(int64_t ticket);
  // The caller has waited for it: on a CPU it has ended, on an accelerator it is in its stream.
  void waited_for(int64_t ticket);

  // What has been issued so far, and forgetting what came after: messages that were only recorded
  // into a graph that some rank could not record. Keeps the ranks' numbers equal.
  struct Mark {
    int64_t next = 0;
    std::vector<std::pair<std::string, int64_t>> numbers;
  };
  Mark mark() const;
  void back_to(const Mark& mark);

  // The ranks of the world in this rank's group along `axis`; `of_device`: its collectives run on
  // the device. Kept whatever the capacity.
  void add_group(const std::string& axis, std::vector<int64_t> ranks, bool of_device);

  // One collective in words.
  struct Found {
    std::string axis, collective, phase;
    int64_t number = 0, step = 0;
    std::vector<int64_t> ranks;  // of the group; empty: not told
  };
  // The collective of the device that a library names by its place in its group, counted from 1,
  // and that was issued at about `issued`; nullopt when none was issued about then.
  std::optional<Found> find(int64_t sequence, double issued) const;

  bool empty() const;
  // When the last of issued(), waits_for() and waited_for() was called; 0: never.
  double last_event() const;
  // Writes {"rank", "ranks", "time", "silent_s" (since the last event), "groups": {axis: ranks},
  // "failed" (absent: not known): {"axis", "number"}, "collectives": [{"number" (within its axis),
  // "axis", "collective", "bytes", "step", "phase", "issued", "waiting", "waited" (null: not
  // yet)}]} whole, oldest first; times are seconds since 1970. Throws EnvironmentError.
  void write(const std::filesystem::path& file, int64_t rank, int64_t ranks,
             const std::optional<Found>& failed = {}) const;

 private:
  struct Entry {
    int64_t ticket = -1, number = 0, bytes = 0, step = 0;
    std::string axis;
    const char* collective = "";
    const char* phase = "";
    double issued = 0, waiting = -1, waited = -1;
  };
  struct GroupEntry {
    std::string axis;
    std::vector<int64_t> ranks;
    bool of_device = false;
  };
  // The entry of a ticket while the ring still holds it. REQUIRES mutex_.
  Entry* entry_of(int64_t ticket);

  mutable std::mutex mutex_;
  int64_t capacity_;
  int64_t next_ = 0;
  double last_event_ = 0;
  std::vector<GroupEntry> groups_;
  std::vector<Entry> ring_;
  std::vector<std::pair<std::string, int64_t>> numbers_;  // by axis: how many so far
};

}  // namespace titan::comm
