// Text helpers without dependencies: splitting, joining, human-readable numbers, the nearest known
// word for hints.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace titan::text {

std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);
// "a, b, c and 7 more": the first `shown` of a list, for messages.
std::string listed(std::span<const std::string> words, size_t shown = 5);
std::string_view trim(std::string_view text);
std::string lower_ascii(std::string_view text);
bool starts_with_any(std::string_view text, std::span<const std::string_view> prefixes);

// 1234567 -> "1,234,567".
std::string with_commas(int64_t value);
// 1536 -> "1.5 KiB"; binary units.
std::string bytes(int64_t value);
// 75.2 -> "1m15s"; 0.31 -> "0.31s"; 3700 -> "1h01m".
std::string duration(double seconds);

// Levenshtein distance in bytes.
int64_t edit_distance(std::string_view a, std::string_view b);
// The closest candidate if it is near enough to be a likely slip (distance at most a third of the
// word's length, at least 2), for "did you mean" hints.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

// True when `bytes` is well-formed UTF-8 (Unicode 15, table 3-7: no surrogates, no overlong forms).
bool is_valid_utf8(std::string_view bytes);
// Replaces each maximal ill-formed part by U+FFFD (Unicode 15, section 3.9); `replaced` counts them
// when given.
std::string to_valid_utf8(std::string_view bytes, int64_t* replaced = nullptr);
// Length of the longest prefix of `bytes` that does not end inside a UTF-8 sequence (for streaming
// output).
size_t complete_utf8_prefix(std::string_view bytes);

}  // namespace titan::text
