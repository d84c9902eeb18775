#include "settings.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace cannemu {
namespace {

constexpr Variable kVariables[] = {
    {"CANNEMU_DEVICES", "8", "number of devices"},
    {"CANNEMU_HBM_MB", "65536",
     "memory of each device in MiB; more is refused as a chip would (207001)"},
    {"CANNEMU_SOC", "Ascend910B2",
     "name of the chip; 950 or Ascend950… switches to that family's operators"},
    {"CANNEMU_CANN_VERSION", "9.1.0", "version that CANN says it has"},
    {"CANNEMU_ASYNC", "1",
     "1: every stream runs in a thread of its own; 0: every call runs at once"},
    {"CANNEMU_JITTER_US", "0",
     "a task of a stream first sleeps a random time up to this, to show missing waits"},
    {"CANNEMU_COMPUTE", "1", "0: operators are launched and do nothing, to time the host"},
    {"CANNEMU_POISON", "1", "1: fresh device memory is NaN; 0: it is what malloc gives"},
    {"CANNEMU_THREADS", "1", "threads that one operator may use"},
    {"CANNEMU_TRACE", "0", "1: every call is one line on stderr"},
    {"CANNEMU_STATS", "",
     "file for the counts of all calls, JSON, written at the end; %p is the process id, %r the "
     "rank"},
    {"CANNEMU_FAULT", "", "faults on demand, see the README"},
    {"CANNEMU_TRANSPORT", "unix", "how HCCL connects processes: unix (one host) or tcp (several)"},
};

std::string text(const char* name) {
  if (const char* value = std::getenv(name)) return value;
  for (const Variable& variable : kVariables) {
    if (std::string_view(variable.name) == name) return variable.default_value;
  }
  std::abort();  // a name that is not in the table
}

long number(const char* name) { return std::strtol(text(name).c_str(), nullptr, 10); }

std::string replaced(std::string text, std::string_view mark, const std::string& value) {
  for (size_t at; (at = text.find(mark)) != std::string::npos;)
    text.replace(at, mark.size(), value);
  return text;
}

Settings read() {
  const char* rank = std::getenv("RANK");
  Settings result;
  result.memory_bytes = static_cast<size_t>(number("CANNEMU_HBM_MB")) << 20;
  result.devices = static_cast<int>(number("CANNEMU_DEVICES"));
  result.soc = text("CANNEMU_SOC");
  if (result.soc == "950") result.soc = "Ascend950PR_9579";
  if (result.soc == "910B2") result.soc = "Ascend910B2";
  result.cann_version = text("CANNEMU_CANN_VERSION");
  result.asynchronous = number("CANNEMU_ASYNC") != 0;
  result.jitter_us = static_cast<int>(number("CANNEMU_JITTER_US"));
  result.compute = number("CANNEMU_COMPUTE") != 0;
  result.poison = number("CANNEMU_POISON") != 0;
  result.threads = static_cast<int>(number("CANNEMU_THREADS"));
  result.trace = number("CANNEMU_TRACE") != 0;
  result.stats_file = replaced(text("CANNEMU_STATS"), "%p", std::to_string(getpid()));
  result.stats_file = replaced(result.stats_file, "%r", rank ? rank : "0");
  result.fault = text("CANNEMU_FAULT");
  result.transport = text("CANNEMU_TRANSPORT");
  return result;
}

}  // namespace

std::span<const Variable> variables() { return kVariables; }

const Settings& settings() {
  static const Settings* values = new Settings(read());  // outlives every other static
  return *values;
}

bool is_950() { return settings().soc.starts_with("Ascend950"); }

}  // namespace cannemu
