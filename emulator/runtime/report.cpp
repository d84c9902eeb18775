#include "runtime/report.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

#include "runtime/memory.h"
#include "settings.h"

namespace cannemu {
namespace {

struct Counters {
  std::mutex mutex;
  std::map<std::string, std::atomic<uint64_t>, std::less<>> of;
};

Counters& counters() {
  static Counters* all = [] {
    if (!settings().stats_file.empty()) std::atexit(write_stats);
    return new Counters;  // streams may count until the process is gone
  }();
  return *all;
}

std::mutex message_mutex;
std::string& message() {
  static std::string* text = new std::string;
  return *text;
}

uint64_t sum(std::string_view prefix, bool whole) {
  Counters& all = counters();
  std::lock_guard lock(all.mutex);
  uint64_t total = 0;
  for (auto at = all.of.lower_bound(prefix); at != all.of.end() && at->first.starts_with(prefix);
       ++at) {
    if (!whole || at->first == prefix) total += at->second;
  }
  return total;
}

}  // namespace

std::atomic<uint64_t>& counter(const char* name) {
  Counters& all = counters();
  std::lock_guard lock(all.mutex);
  return all.of[name];
}

void trace(const char* name) {
  static const bool on = settings().trace;
  if (on) std::fprintf(stderr, "[cannemu] %s\n", name);
}

int fail(int code, const std::string& text) {
  std::fprintf(stderr, "[cannemu] ERROR %d %s\n", code, text.c_str());
  std::lock_guard lock(message_mutex);
  message() = "cannemu: " + text;
  return code;
}

std::string recent_message() {
  std::lock_guard lock(message_mutex);
  return message();
}

void write_stats() {
  const std::string& path = settings().stats_file;
  if (path.empty()) return;
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) return;
  Counters& all = counters();
  std::lock_guard lock(all.mutex);
  std::fprintf(file, "{\n  \"peak_bytes\": %zu,\n  \"calls\": {", peak_bytes());
  const char* separator = "\n";
  for (const auto& [name, calls] : all.of) {
    if (calls == 0) continue;
    std::fprintf(file, "%s    \"%s\": %llu", separator, name.c_str(),
                 static_cast<unsigned long long>(calls.load()));
    separator = ",\n";
  }
  std::fprintf(file, "\n  }\n}\n");
  std::fclose(file);
}

}  // namespace cannemu

extern "C" {

uint64_t cannemu_count(const char* name) { return cannemu::sum(name, true); }

uint64_t cannemu_count_prefix(const char* prefix) { return cannemu::sum(prefix, false); }

void cannemu_reset_counts() {
  cannemu::Counters& all = cannemu::counters();
  std::lock_guard lock(all.mutex);
  for (auto& [name, calls] : all.of) calls = 0;
}

// A function the adapter may call and nobody wrote: generated names end here (cmake/make_stubs.py).
long cannemu_unknown_acl(const char* name) {
  return cannemu::fail(207000, std::string(name) + " is not emulated");
}
}
