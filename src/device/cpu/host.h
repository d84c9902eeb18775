// Facts about this machine and process as the kernel tells them: cores, memory, limits of the
// container.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace titan::device::host {

// "AMD EPYC 9654 96-Core Processor", or the architecture where the kernel gives no name.
std::string cpu_name();

// Processors in this process's affinity mask.
int64_t affinity_cores();
// Of those, how many are distinct cores: hardware threads of one core count once.
int64_t affinity_physical_cores();
// The container's CPU quota in cores (cgroup v1 or v2, all levels); nullopt without one.
std::optional<double> cpu_quota();
// Parsers behind cpu_quota(): content of cpu.max; nullopt for "max" and for text of another form.
std::optional<double> parse_cpu_max(std::string_view text);

struct ProcessMemory {
  int64_t resident = 0;
  int64_t resident_peak = 0;
};
ProcessMemory process_memory();
// Starts a new peak where the kernel allows it (/proc/self/clear_refs); else the peak stays that of
// the process's life.
void reset_peak_memory();
// Gives freed heap pages back to the kernel.
void trim_heap();

// The smaller of physical memory and the container's limit.
int64_t memory_capacity();
// What could still be had without swapping, within the container's limit.
int64_t memory_available();

}  // namespace titan::device::host
