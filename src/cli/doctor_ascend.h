// What can be told about an Ascend machine without opening a device: driver, CANN, torch_npu, the
// files of the devices, what npu-smi says, the network of the devices; and what of it does not fit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace titan::cli {

// One row of `npu-smi info`.
struct NpuRow {
  int64_t id = 0;
  std::string name, health, bus_id;
  int64_t memory_used_mb = 0, memory_total_mb = 0;
  std::vector<int64_t> processes;  // that use it
};

struct AscendFinding {
  bool is_error = false;  // training cannot work; else a warning
  std::string what;
  std::string advice;
};

struct AscendFacts {
  bool present = false;  // there is a sign of Ascend software or hardware; else the rest is empty
  std::string driver, firmware, cann, torch_npu;  // versions; empty: not found
  std::string cann_home;
  std::vector<std::string> device_files;  // /dev/davinci0 …
  std::vector<NpuRow> devices;
  std::string npu_smi;  // why `devices` is empty, when npu-smi could not tell
  std::vector<AscendFinding> findings;
};

// Where to look; the defaults are this machine.
struct AscendPlaces {
  std::filesystem::path root = "/";
  std::string cann_home;  // empty: ASCEND_HOME_PATH, else /usr/local/Ascend/ascend-toolkit/latest
  std::string npu_smi = "npu-smi";
  std::string torch;      // version that titan was built with
  std::string torch_npu;  // version found beside it; empty: none
};

AscendFacts collect_ascend_facts(const AscendPlaces& places);

// The rows of `npu-smi info`'s tables; empty when there is none.
std::vector<NpuRow> parse_npu_smi(const std::string& output);

// The CANN release that a torch_npu release was made for ("9.1.0"), by the table of its project;
// empty when it is not listed.
std::string cann_of_torch_npu(const std::string& torch_npu);

}  // namespace titan::cli
