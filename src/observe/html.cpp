#include "observe/html.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace titan::observe {

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text::to_valid_utf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        // HTML knows no control characters but these; others would only confuse the reader.
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') out += c;
    }
  }
  return out;
}

std::string escape_json(std::string_view json) {
  std::string out;
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string fill_template(std::string_view page,
                          const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string out;
  size_t begin = 0;
  for (size_t open = page.find("{{"); open != std::string_view::npos;
       open = page.find("{{", begin)) {
    const size_t close = page.find("}}", open);
    TITAN_CHECK(close != std::string_view::npos, "the report's page has an open placeholder");
    const std::string_view name = page.substr(open + 2, close - open - 2);
    const auto value =
        std::ranges::find(values, name, &std::pair<std::string_view, std::string>::first);
    TITAN_CHECK(value != values.end(), "the report's page asks for '{}'", name);
    out.append(page.substr(begin, open - begin)).append(value->second);
    begin = close + 2;
  }
  return out.append(page.substr(begin));
}

}  // namespace titan::observe
