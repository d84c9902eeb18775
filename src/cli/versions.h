// Which titan this is: for `titan --version`, the log and the run record.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace titan::cli {

// titan, torch, compiler, devices, in this order.
std::vector<std::pair<std::string, std::string>> version_facts();

}  // namespace titan::cli
