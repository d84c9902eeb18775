// Dense bf16 rates of Ascend NPUs by the name of their chip, as MFU divides by them. A device is
// one die: the A3's packages hold two.
#pragma once

#include <string_view>

#include "device/backend.h"

namespace titan::device::npu {

// "Atlas A2" of "Ascend910B2", "Atlas A3" of "Ascend910_9391"; "" for a chip that is not known.
std::string_view family_of(std::string_view chip);

// Why titan cannot train on this chip: "an Ascend310P3 …"; nullopt when it can or is not known.
std::optional<std::string> chip_problem(std::string_view chip);

// Never fails: an unknown chip gets the 910B3's value, and the source says so.
PeakFlops peak_flops_of(std::string_view chip);

}  // namespace titan::device::npu
