// TOML -> flat assignments with their lines. The schema is not consulted here: load.cpp does that
// for every source alike.
#include <toml++/toml.h>

#include "base/error.h"
#include "config/assignment.h"

namespace titan::config {
namespace {

struct TomlReader {
  std::string file;
  FileContent content;

  Origin origin(const toml::node& node) const {
    return {Origin::Kind::kFile, file, static_cast<int64_t>(node.source().begin.line)};
  }

  [[noreturn]] void fail(const toml::node& node, const std::string& key, const char* what) const {
    throw Error("[config] {}: {} {}", to_text(origin(node)), key, what);
  }

  TextList text_list(const toml::array& array, const std::string& key) const {
    TextList list;
    for (const auto& item : array) {
      const auto* word = item.as_string();
      if (!word)
        fail(item, key,
             "holds a list with something other than texts — put each item in double quotes");
      list.push_back(**word);
    }
    return list;
  }

  Value list_value(const toml::array& array, const std::string& key) const {
    if (array.empty() || !array[0].is_array()) return text_list(array, key);
    TextLists lists;
    for (const auto& item : array) {
      if (!item.is_array())
        fail(item, key, "mixes lists and single texts — make every item a list");
      lists.push_back(text_list(*item.as_array(), key));
    }
    return lists;
  }

  Value value(const toml::node& node, const std::string& key) const {
    if (const auto* flag = node.as_boolean()) return **flag;
    if (const auto* integer = node.as_integer()) return **integer;
    if (const auto* real = node.as_floating_point()) return **real;
    if (const auto* word = node.as_string()) return **word;
    if (const auto* array = node.as_array()) return list_value(*array, key);
    fail(node, key, "is a date or a time, which no key takes");
  }

  void walk(const toml::table& table, const std::string& prefix) {
    for (const auto& [name, node] : table) {
      const std::string key = prefix + std::string(name.str());
      if (const auto* inner = node.as_table()) {
        content.tables.push_back({key, None{}, false, origin(node)});
        walk(*inner, key + ".");
      } else {
        content.assignments.push_back({key, value(node, key), false, origin(node)});
      }
    }
  }
};

// The parser and the tree it makes are recursive in the parts of a dotted key: a line of a hundred
// thousand dots would use up the stack.
void refuse_deep_keys(const std::string& text, const std::string& file) {
  constexpr int64_t kMostDots = 500;
  int64_t dots = 0;
  int64_t line = 1;
  bool in_key = true;
  for (const char c : text) {
    if (c == '\n') {
      ++line;
      dots = 0;
      in_key = true;
    } else if (c == '=') {
      in_key = false;
    } else if (c == '.' && in_key && ++dots > kMostDots) {
      throw Error("[config] {}:{}: a key of more than {} parts", file, line, kMostDots);
    }
  }
}

}  // namespace

FileContent read_toml(const std::filesystem::path& path) {
  const std::string text = read_config_text(path);
  TomlReader reader{path.string(), {}};
  refuse_deep_keys(text, reader.file);
  try {
    const toml::table table = toml::parse(text, reader.file);
    reader.walk(table, "");
  } catch (const toml::parse_error& error) {
    throw Error("[config] {}:{}:{}: this is not TOML: {}", reader.file, error.source().begin.line,
                error.source().begin.column, error.description());
  }
  return std::move(reader.content);
}

}  // namespace titan::config
