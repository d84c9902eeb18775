// CANN's error codes in words. CANN and torch_npu report a number and many lines; what it means and
// what to do about it stands here. Part of the core: the code that prints errors uses it whatever
// modules are loaded.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace titan::device::npu {

// "EI0006: … — …" for the first code that `message` holds and that is known; nullopt when there is
// none.
std::optional<std::string> explain_error(std::string_view message);

}  // namespace titan::device::npu
