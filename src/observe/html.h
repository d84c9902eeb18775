// Text into HTML, and JSON into a script element, safely; and a template with named places.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace titan::observe {

// Escapes markup, replaces ill-formed UTF-8 and drops control characters.
std::string escape_html(std::string_view text);

// JSON that may stand inside a script element: '<', which occurs in its strings only, is written as
// an escape.
std::string escape_json(std::string_view json);

// Puts values for "{{name}}" in one pass, so that a value may contain braces. Every name must have
// a value.
std::string fill_template(std::string_view page,
                          const std::vector<std::pair<std::string_view, std::string>>& values);

}  // namespace titan::observe
