// The contract with torch_npu: the schemas that npu_ops.cpp is written for against the registered
// ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ops/npu_ops.h"

namespace titan::ops::npu {

// One line that names the operator, the first argument that differs, and the version of torch_npu;
// nullopt when name, arguments, types, defaults and results are the same.
std::optional<std::string> schema_difference(const Schema& expected, std::string_view version);

}  // namespace titan::ops::npu
