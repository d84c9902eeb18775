// Every call of the emulated libraries is counted and can be traced; every failure is a line on
// stderr and the message that aclGetRecentErrMsg() gives.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace cannemu {

// The counter of a function; the address stays valid.
std::atomic<uint64_t>& counter(const char* name);

void trace(const char* name);

// Once in each emulated function.
#define CANNEMU_CALL()                                                        \
  do {                                                                        \
    static std::atomic<uint64_t>& calls_of_this = cannemu::counter(__func__); \
    calls_of_this.fetch_add(1, std::memory_order_relaxed);                    \
    cannemu::trace(__func__);                                                 \
  } while (false)

// Says what failed and returns `code`.
int fail(int code, const std::string& message);

std::string recent_message();

// Writes the counts as JSON to settings().stats_file, if one is set. Also done at exit.
void write_stats();

}  // namespace cannemu

// For tests in the same process, by dlsym: how often a function was called, all zero again, and the
// sum over the names that begin with a prefix ("aclnn": operators started, one each; the look-up of
// a workspace's size has a name of its own).
extern "C" {
uint64_t cannemu_count(const char* name);
uint64_t cannemu_count_prefix(const char* prefix);
void cannemu_reset_counts();
}
