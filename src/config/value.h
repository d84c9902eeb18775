// A value of a key as a reader found it, before it is matched to the key's type, and its text form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace titan::config {

using TextList = std::vector<std::string>;
using TextLists = std::vector<TextList>;

// "no value": what an absent TOML key means, and `None` on the command line.
struct None {
  bool operator==(const None&) const = default;
};

using Value = std::variant<None, bool, int64_t, double, std::string, TextList, TextLists>;

// TOML notation, None for no value: true, 8, 1e-05, "text", ["a", "b"].
std::string to_text(const Value& value);

// "an integer", "a list of texts": for messages.
std::string_view kind_name(const Value& value);

// Shortest text that reads back to the same double and still looks like a real: 1.0, 0.0003, 1e-08.
std::string real_to_text(double value);

// `text` in double quotes with TOML's escapes.
std::string quote(std::string_view text);

}  // namespace titan::config
