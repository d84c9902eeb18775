#include "comm/recorder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files.h"

namespace titan::comm {

void Recorder::set_capacity(int64_t capacity) {
  const std::lock_guard lock(mutex_);
  capacity_ = capacity;
  ring_.clear();
}

int64_t Recorder::issued(const std::string& axis, const char* collective, int64_t bytes,
                         int64_t step, const char* phase) {
  const std::lock_guard lock(mutex_);
  if (capacity_ == 0) return -1;
  auto count = std::ranges::find(numbers_, axis, &std::pair<std::string, int64_t>::first);
  if (count == numbers_.end()) count = numbers_.insert(count, {axis, 0});
  const int64_t ticket = next_++;
  const auto place = static_cast<size_t>(ticket % capacity_);
  if (ring_.size() <= place) ring_.resize(place + 1);
  ring_[place] = {ticket, count->second++, bytes, step, axis, collective, phase, unix_time()};
  return ticket;
}

Recorder::Entry* Recorder::find(int64_t ticket) {
  if (ticket < 0 || capacity_ == 0) return nullptr;
  const auto place = static_cast<size_t>(ticket % capacity_);
  return place < ring_.size() && ring_[place].ticket == ticket ? &ring_[place] : nullptr;
}

void Recorder::waits_for(int64_t ticket) {
  const std::lock_guard lock(mutex_);
  if (Entry* entry = find(ticket)) entry->waiting = unix_time();
}

void Recorder::waited_for(int64_t ticket) {
  const std::lock_guard lock(mutex_);
  if (Entry* entry = find(ticket)) entry->waited = unix_time();
}

bool Recorder::empty() const {
  const std::lock_guard lock(mutex_);
  return ring_.empty();
}

void Recorder::write(const std::filesystem::path& file, int64_t rank, int64_t ranks) const {
  nlohmann::ordered_json record = {{"rank", rank}, {"ranks", ranks}, {"time", unix_time()}};
  auto& list = record["collectives"] = nlohmann::ordered_json::array();
  {
    const std::lock_guard lock(mutex_);
    const auto size = static_cast<int64_t>(ring_.size());
    for (int64_t ticket = next_ - size; ticket < next_; ++ticket) {
      const Entry& e = ring_[static_cast<size_t>(ticket % capacity_)];
      list.push_back({{"number", e.number},
                      {"axis", e.axis},
                      {"collective", e.collective},
                      {"bytes", e.bytes},
                      {"step", e.step},
                      {"phase", e.phase},
                      {"issued", e.issued},
                      {"waiting", nullptr},
                      {"waited", nullptr}});
      if (e.waiting >= 0) list.back()["waiting"] = e.waiting;
      if (e.waited >= 0) list.back()["waited"] = e.waited;
    }
  }
  std::filesystem::create_directories(file.parent_path());
  files::write_atomically(file, record.dump(1) + "\n");
}

}  // namespace titan::comm
