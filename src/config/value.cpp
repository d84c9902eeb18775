#include "config/value.h"

#include <fmt/format.h>

#include <cmath>

namespace titan::config {
namespace {

std::string list_to_text(const TextList& list) {
  std::string out = "[";
  for (const auto& item : list) out += (out.size() > 1 ? ", " : "") + quote(item);
  return out + "]";
}

struct ToText {
  std::string operator()(None) const { return "None"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return real_to_text(value); }
  std::string operator()(const std::string& value) const { return quote(value); }
  std::string operator()(const TextList& value) const { return list_to_text(value); }
  std::string operator()(const TextLists& value) const {
    std::string out = "[";
    for (const auto& list : value) out += (out.size() > 1 ? ", " : "") + list_to_text(list);
    return out + "]";
  }
};

}  // namespace

std::string to_text(const Value& value) { return std::visit(ToText{}, value); }

std::string_view kind_name(const Value& value) {
  static constexpr std::string_view kNames[] = {
      "no value",        "true or false",           "an integer", "a real", "a text",
      "a list of texts", "a list of lists of texts"};
  static_assert(std::size(kNames) == std::variant_size_v<Value>);
  return kNames[value.index()];
}

std::string real_to_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          out += fmt::format("\\u{:04x}", static_cast<int>(c));
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

}  // namespace titan::config
