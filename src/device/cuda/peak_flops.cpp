#include "device/cuda/peak_flops.h"

#include <fmt/format.h>

namespace titan::device::cuda {
namespace {

struct Row {
  const char* part;  // of the driver's name
  double per_second;
};

// The first row whose part occurs in the name counts: variants stand before the family.
constexpr Row kRows[] = {
    {"GB300", 2.5e15},    {"GB200", 2.5e15},    {"B300", 2.25e15},     {"B200", 2.25e15},
    {"H200", 989e12},     {"H100 NVL", 835e12}, {"H100 PCIe", 756e12}, {"H100", 989e12},
    {"H20", 148e12},      {"GH200", 989e12},    {"L40S", 362e12},      {"A100", 312e12},
    {"A6000", 154.85e12},
};
constexpr double kUnknown = 312e12;

}  // namespace

PeakFlops peak_flops_of(std::string_view device_name) {
  for (const auto& row : kRows) {
    if (device_name.find(row.part) != std::string_view::npos) {
      return {row.per_second, fmt::format("table: {}, dense bf16", row.part)};
    }
  }
  return {kUnknown, fmt::format("unknown GPU '{}', taken as an A100", device_name)};
}

}  // namespace titan::device::cuda
