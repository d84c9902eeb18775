// What `titan doctor` finds out, apart from how it is shown. Collecting opens every device that can
// be used, so it is done once per process and before anything else touches a device
// (device/registry.h says why).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/doctor_ascend.h"
#include "cli/doctor_devices.h"
#include "cli/doctor_ops.h"
#include "device/registry.h"

namespace titan::cli {

struct EnvironmentFact {
  std::string name;
  std::string meaning;
  std::optional<std::string> value;  // nullopt: not set
};

struct CpuFacts {
  std::string name;
  int64_t cores = 0;            // this process may run on
  int64_t physical_cores = 0;   // of those, without hardware threads
  std::optional<double> quota;  // of the container, in cores
  int64_t threads = 0;          // in force
  std::string threads_reason;
  std::string vector_units;  // what libtorch uses: AVX512, AVX2, …
  int64_t memory = 0;        // bytes this process may use
  int64_t memory_available = 0;
  int64_t memory_resident = 0;  // of this process
  double flops = 0;             // float32 per second
  std::string flops_source;
  MemorySpeed memory_speed;
  std::string health;  // "good" or what is wrong
};

// A kind of device that comes as a module.
struct DeviceFacts {
  device::ModuleInfo module;
  bool healthy = false;  // it was opened and computed what it should; the rest is set then or when
                         // it was opened
  std::string device;    // "cuda:0"
  int64_t count = 0;
  int64_t memory = 0;
  int64_t memory_free = 0;
  double flops = 0;  // bfloat16 per second
  std::string flops_source;
  MemorySpeed memory_speed;
  std::string health;
  // What the device's libraries are told through the environment, and by whom (NPU only).
  std::vector<device::npu::Setting> settings;
};

struct PlaceFacts {
  std::string what;  // "current folder", "temporary files"
  std::string path;
  int64_t free = 0;
  int64_t total = 0;
};

struct DoctorFacts {
  std::vector<std::pair<std::string, std::string>> versions;
  std::vector<EnvironmentFact> environment;
  std::vector<DeviceFacts> devices;
  AscendFacts ascend;
  // What the variables of a job say wrongly: for any device, and for HCCL alone.
  std::vector<AscendFinding> network, hccl;
  std::optional<AllReduceFacts> all_reduce;  // absent: not asked for
  CpuFacts cpu;
  std::vector<PlaceFacts> disk;
  std::vector<OpFact> ops;  // empty unless asked for
};

// with_ops: also run every op on every device that can be used.
DoctorFacts collect_doctor_facts(bool with_ops);

std::string doctor_text(const DoctorFacts& facts);
// One JSON object; keys are only ever added (docs/doctor.md lists them).
std::string doctor_json(const DoctorFacts& facts);

}  // namespace titan::cli
