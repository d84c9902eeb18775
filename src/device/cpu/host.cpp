#include "device/cpu/host.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sched.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "base/text.h"

namespace titan::device::host {
namespace {

namespace fs = std::filesystem;

// First line of a kernel file; empty when it is absent.
std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int64_t> to_int(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end != text.data() ? std::optional(value) : std::nullopt;
}

// Value in bytes of a "Name:   123 kB" line.
std::optional<int64_t> kilobyte_field(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ':') {
      const auto value = to_int(text::trim(std::string_view(line).substr(name.size() + 1)));
      return value ? std::optional(*value * 1024) : std::nullopt;
    }
  }
  return std::nullopt;
}

// The folders of this process's control group and its parents, innermost first, under the mount of
// `controller`
// ("" = version 2). In a container the path in /proc/self/cgroup may not exist below the mount; the
// mount's root then is the container's own group.
std::vector<fs::path> cgroup_folders(std::string_view controller) {
  const fs::path mount =
      controller.empty() ? fs::path("/sys/fs/cgroup") : fs::path("/sys/fs/cgroup") / controller;
  std::vector<fs::path> folders;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto parts = text::split(line, ':');
    if (parts.size() < 3) continue;
    const auto names = text::split(parts[1], ',');
    const bool ours = controller.empty()
                          ? parts[1].empty()
                          : std::find(names.begin(), names.end(), controller) != names.end();
    if (!ours) continue;
    fs::path relative = fs::path(parts[2]).relative_path();
    for (; !relative.empty(); relative = relative.parent_path())
      folders.push_back(mount / relative);
  }
  folders.push_back(mount);
  return folders;
}

std::optional<int64_t> cgroup_memory_file(const char* version2, const char* version1) {
  std::optional<int64_t> least;
  const auto take = [&least](const fs::path& path) {
    const auto value = to_int(first_line(path));
    if (value && (!least || *value < *least)) least = value;
  };
  for (const auto& folder : cgroup_folders("")) take(folder / version2);
  for (const auto& folder : cgroup_folders("memory")) take(folder / version1);
  return least;
}

cpu_set_t affinity_mask() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) {
    // More processors than the mask holds: count those that are online instead.
    for (int64_t i = 0, n = sysconf(_SC_NPROCESSORS_ONLN); i < n && i < CPU_SETSIZE; ++i)
      CPU_SET(i, &mask);
  }
  return mask;
}

}  // namespace

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const auto at = line.find(':');
    if (at != std::string::npos)
      return std::string(text::trim(std::string_view(line).substr(at + 1)));
  }
  utsname names{};
  return uname(&names) == 0 ? fmt::format("{} CPU", names.machine) : "CPU";
}

int64_t affinity_cores() {
  const cpu_set_t mask = affinity_mask();
  return std::max(1, CPU_COUNT(&mask));
}

int64_t affinity_physical_cores() {
  const cpu_set_t mask = affinity_mask();
  std::set<std::string> cores;  // each core by the list of its hardware threads
  int64_t unknown = 0;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &mask)) continue;
    const std::string threads =
        first_line(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", i));
    if (threads.empty())
      ++unknown;
    else
      cores.insert(threads);
  }
  return std::max<int64_t>(1, static_cast<int64_t>(cores.size()) + unknown);
}

std::optional<double> parse_cpu_max(std::string_view text) {
  const auto parts = text::split(text::trim(text), ' ');
  if (parts.size() != 2) return std::nullopt;
  const auto quota = to_int(parts[0]), period = to_int(parts[1]);
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<double> cpu_quota() {
  std::optional<double> least;
  const auto take = [&least](std::optional<double> value) {
    if (value && (!least || *value < *least)) least = value;
  };
  for (const auto& folder : cgroup_folders("")) take(parse_cpu_max(first_line(folder / "cpu.max")));
  for (const auto& folder : cgroup_folders("cpu")) {
    take(parse_cpu_max(first_line(folder / "cpu.cfs_quota_us") + " " +
                       first_line(folder / "cpu.cfs_period_us")));
  }
  return least;
}

ProcessMemory process_memory() {
  ProcessMemory memory;
  memory.resident = kilobyte_field("/proc/self/status", "VmRSS").value_or(0);
  memory.resident_peak =
      std::max(memory.resident, kilobyte_field("/proc/self/status", "VmHWM").value_or(0));
  return memory;
}

void reset_peak_memory() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
}

void trim_heap() { malloc_trim(0); }

int64_t memory_capacity() {
  struct sysinfo info {};
  sysinfo(&info);
  const int64_t physical = static_cast<int64_t>(info.totalram) * info.mem_unit;
  const auto limit = cgroup_memory_file("memory.max", "memory.limit_in_bytes");
  return limit ? std::min(physical, *limit) : physical;
}

int64_t memory_available() {
  const int64_t available = kilobyte_field("/proc/meminfo", "MemAvailable").value_or(0);
  return std::min(available, std::max<int64_t>(0, memory_capacity() - process_memory().resident));
}

}  // namespace titan::device::host
