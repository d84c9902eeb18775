#include "ops/npu_schemas.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <vector>

namespace titan::ops::npu {
namespace {

// The pieces between commas of "(…)" that stand outside of brackets and quotes.
std::vector<std::string> split_arguments(std::string_view text) {
  std::vector<std::string> pieces;
  std::string piece;
  int depth = 0;
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '(' || c == '[')) ++depth;
    if (!quoted && (c == ')' || c == ']')) --depth;
    if (c == ',' && depth == 0 && !quoted) {
      pieces.push_back(std::exchange(piece, {}));
    } else if (c != ' ' || !piece.empty()) {
      piece += c;
    }
  }
  if (!piece.empty()) pieces.push_back(piece);
  return pieces;
}

struct Parts {
  std::vector<std::string> arguments;
  std::string results;
};

Parts parts_of(std::string_view schema) {
  constexpr std::string_view kArrow = ") -> ";
  const size_t begin = schema.find('('), end = schema.rfind(kArrow);
  if (begin == std::string_view::npos || end == std::string_view::npos) return {};
  return {split_arguments(schema.substr(begin + 1, end - begin - 1)),
          std::string(schema.substr(end + kArrow.size()))};
}

}  // namespace

std::optional<std::string> schema_difference(const Schema& expected, std::string_view version) {
  const auto found = c10::Dispatcher::singleton().findSchema({expected.name, ""});
  if (!found) {
    return fmt::format("{}: torch_npu {} does not have this operator", expected.name, version);
  }
  std::ostringstream text;
  text << found->schema();
  if (text.str() == expected.text || (expected.other && text.str() == expected.other)) {
    return std::nullopt;
  }
  const Parts ours = parts_of(expected.text), theirs = parts_of(text.str());
  const auto at = [](const std::vector<std::string>& list, size_t i) {
    return i < list.size() ? list[i] : std::string("nothing");
  };
  const size_t count = std::max(ours.arguments.size(), theirs.arguments.size());
  for (size_t i = 0; i < count; ++i) {
    const std::string mine = at(ours.arguments, i), registered = at(theirs.arguments, i);
    if (mine == registered) continue;
    return fmt::format("{}: argument {} is '{}' in torch_npu {}, titan calls it with '{}'",
                       expected.name, i + 1, registered, version, mine);
  }
  return fmt::format("{}: torch_npu {} returns {}, titan takes {}", expected.name, version,
                     theirs.results, ours.results);
}

bool takes(const char* name, std::string_view argument) {
  const auto& arguments =
      c10::Dispatcher::singleton().findSchemaOrThrow(name, "").schema().arguments();
  return std::ranges::any_of(arguments, [&](const auto& one) { return one.name() == argument; });
}

}  // namespace titan::ops::npu
