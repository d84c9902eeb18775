#include "device/npu/peak_flops.h"

#include <fmt/format.h>

namespace titan::device::npu {
namespace {

struct Row {
  const char* prefix;  // of the chip's name
  const char* family;
  double per_second;
};

// The first row that the name begins with counts: variants stand before the family. The 950's rate
// is half of the announced one of fp8.
constexpr Row kRows[] = {
    {"Ascend910B1", "Atlas A2", 414e12},  {"Ascend910B2", "Atlas A2", 376e12},
    {"Ascend910B3", "Atlas A2", 313e12},  {"Ascend910B4", "Atlas A2", 280e12},
    {"Ascend910_93", "Atlas A3", 376e12}, {"Ascend910_95", "Ascend 950", 500e12},
    {"Ascend950", "Ascend 950", 500e12},
};
constexpr double kUnknown = 313e12;

const Row* find(std::string_view chip) {
  for (const auto& row : kRows) {
    if (chip.starts_with(row.prefix)) return &row;
  }
  return nullptr;
}

}  // namespace

std::string_view family_of(std::string_view chip) {
  const Row* row = find(chip);
  return row ? row->family : "";
}

std::optional<std::string> chip_problem(std::string_view chip) {
  if (chip.starts_with("Ascend310")) {
    return fmt::format("an {} is made for inference and has no gradients of fused operators", chip);
  }
  // The first generation; the second has a digit behind the B.
  constexpr std::string_view kFirst[] = {"Ascend910A", "Ascend910B", "Ascend910ProA",
                                         "Ascend910ProB", "Ascend910PremiumA"};
  for (const auto first : kFirst) {
    if (chip == first) return fmt::format("an {} has no bfloat16", chip);
  }
  return std::nullopt;
}

PeakFlops peak_flops_of(std::string_view chip) {
  if (const Row* row = find(chip)) {
    return {row->per_second, fmt::format("table: {}, dense bf16 of one die", row->prefix)};
  }
  return {kUnknown, fmt::format("unknown chip '{}', taken as an Ascend910B3", chip)};
}

}  // namespace titan::device::npu
