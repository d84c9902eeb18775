// What the variables of a job say about its network, held against this host: the port and the
// address where the ranks meet, HCCL's rank table, interfaces, addresses and ports. Opens no
// device.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/doctor_ascend.h"

namespace titan::cli {

// Of MASTER_ADDR and MASTER_PORT.
std::vector<AscendFinding> check_meeting_place();
// Of HCCL's variables. `root`: where /sys is.
std::vector<AscendFinding> check_hccl_settings(const std::filesystem::path& root = "/");

// What is wrong with the text of an HCCL rank table, one line each; empty: nothing.
std::vector<std::string> rank_table_problems(const std::string& text);

}  // namespace titan::cli
