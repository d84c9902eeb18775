// Standard base64, as tokenizer files use it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace titan::data {

// nullopt when `text` is not base64 with its padding.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace titan::data
