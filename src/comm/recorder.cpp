#include "comm/recorder.h"

#include <algorithm>
#include <cmath>
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
  last_event_ = unix_time();
  ring_[place] = {ticket, count->second++, bytes, step, axis, collective, phase, last_event_};
  return ticket;
}

Recorder::Mark Recorder::mark() const {
  const std::lock_guard lock(mutex_);
  return {next_, numbers_};
}

void Recorder::back_to(const Mark& mark) {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : ring_) {
    if (entry.ticket >= mark.next) entry = {};
  }
  numbers_ = mark.numbers;
}

Recorder::Entry* Recorder::entry_of(int64_t ticket) {
  if (ticket < 0 || capacity_ == 0) return nullptr;
  const auto place = static_cast<size_t>(ticket % capacity_);
  return place < ring_.size() && ring_[place].ticket == ticket ? &ring_[place] : nullptr;
}

void Recorder::waits_for(int64_t ticket) {
  const std::lock_guard lock(mutex_);
  if (Entry* entry = entry_of(ticket)) entry->waiting = last_event_ = unix_time();
}

void Recorder::waited_for(int64_t ticket) {
  const std::lock_guard lock(mutex_);
  if (Entry* entry = entry_of(ticket)) entry->waited = last_event_ = unix_time();
}

void Recorder::add_group(const std::string& axis, std::vector<int64_t> ranks, bool of_device) {
  const std::lock_guard lock(mutex_);
  groups_.push_back({axis, std::move(ranks), of_device});
}

std::optional<Recorder::Found> Recorder::find(int64_t sequence, double issued) const {
  // The library says how long it has run in whole milliseconds, and says it a moment later.
  constexpr double kAbout_s = 1.5;
  const std::lock_guard lock(mutex_);
  const Entry* best = nullptr;
  const GroupEntry* group_of_best = nullptr;
  const auto distance = [&](const Entry& e) {
    // Another count than ours (joined messages) is worth less than any distance in time.
    return std::abs(e.issued - issued) + (e.number + 1 == sequence ? 0 : kAbout_s);
  };
  for (const Entry& entry : ring_) {
    const auto group = std::ranges::find(groups_, entry.axis, &GroupEntry::axis);
    if (group == groups_.end() || !group->of_device) continue;
    if (std::abs(entry.issued - issued) > kAbout_s) continue;
    if (best && distance(entry) >= distance(*best)) continue;
    best = &entry;
    group_of_best = &*group;
  }
  if (!best) return std::nullopt;
  return Found{.axis = best->axis,
               .collective = best->collective,
               .phase = best->phase,
               .number = best->number,
               .step = best->step,
               .ranks = group_of_best->ranks};
}

double Recorder::last_event() const {
  const std::lock_guard lock(mutex_);
  return last_event_;
}

bool Recorder::empty() const {
  const std::lock_guard lock(mutex_);
  return ring_.empty();
}

void Recorder::write(const std::filesystem::path& file, int64_t rank, int64_t ranks,
                     const std::optional<Found>& failed) const {
  const double now = unix_time();
  nlohmann::ordered_json record = {{"rank", rank}, {"ranks", ranks}, {"time", now}};
  {
    const std::lock_guard lock(mutex_);
    record["silent_s"] = last_event_ > 0 ? now - last_event_ : 0;
    record["groups"] = nlohmann::ordered_json::object();
    for (const auto& group : groups_) record["groups"][group.axis] = group.ranks;
    if (failed) record["failed"] = {{"axis", failed->axis}, {"number", failed->number}};
    auto& list = record["collectives"] = nlohmann::ordered_json::array();
    const auto size = static_cast<int64_t>(ring_.size());
    for (int64_t ticket = next_ - size; ticket < next_; ++ticket) {
      const Entry& e = ring_[static_cast<size_t>(ticket % capacity_)];
      if (e.ticket < 0) continue;  // forgotten
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
