// Element types by the names that safetensors headers and the index use ("F32", "BF16").
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

namespace titan::checkpoint {

// nullopt: a type this build of titan does not store.
std::optional<c10::ScalarType> dtype_of_tag(std::string_view tag);
// Throws Error for a type that safetensors has no name for.
std::string tag_of_dtype(c10::ScalarType dtype);
// "float32", "bfloat16": the spelling of the config and of PyTorch.
std::string dtype_name(c10::ScalarType dtype);
// Of a config's word ("float16", "bfloat16", "float32", "float64"); nullopt otherwise.
std::optional<c10::ScalarType> floating_dtype(std::string_view name);

}  // namespace titan::checkpoint
