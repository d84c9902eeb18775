// The byte alphabet of GPT-2's tokenizer: each byte is written as one printable character, so that
// a vocabulary of byte strings can be stored as JSON text.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace titan::data::byte_level {

// Character that stands for each byte.
const std::array<char32_t, 256>& characters();
// The byte of a character; nullopt when the character stands for none.
std::optional<unsigned char> byte_of(char32_t character);

std::string to_text(std::string_view bytes);
// The bytes that `text` (well-formed UTF-8) stands for; nullopt when a character stands for no
// byte.
std::optional<std::string> to_bytes(std::string_view text);

}  // namespace titan::data::byte_level
