// YAML -> flat assignments with their lines. Scalars stay words: the type of the key decides how
// they are read.
#include <yaml-cpp/yaml.h>

#include <set>

#include "base/error.h"
#include "config/alias.h"
#include "config/assignment.h"

namespace titan::config {
namespace {

struct YamlReader {
  std::string file;
  FileContent content;

  Origin origin(const YAML::Node& node) const {
    return {Origin::Kind::kFile, file, node.Mark().line + 1};
  }

  [[noreturn]] void fail(const YAML::Node& node, const std::string& what) const {
    throw Error("[config] {}: {}", to_text(origin(node)), what);
  }

  TextList text_list(const YAML::Node& node, const std::string& key) const {
    TextList list;
    for (const auto& item : node) {
      if (!item.IsScalar()) fail(item, key + " holds a list with something other than texts");
      list.push_back(item.Scalar());
    }
    return list;
  }

  Value list_value(const YAML::Node& node, const std::string& key) const {
    if (node.size() == 0 || !node[0].IsSequence()) return text_list(node, key);
    TextLists lists;
    for (const auto& item : node) {
      if (!item.IsSequence())
        fail(item, key + " mixes lists and single texts — make every item a list");
      lists.push_back(text_list(item, key));
    }
    return lists;
  }

  void add(const std::string& key, const YAML::Node& name, const YAML::Node& node) {
    Assignment found{key, None{}, false, origin(name)};
    if (node.IsSequence()) {
      found.value = list_value(node, key);
    } else if (node.IsScalar()) {
      found.value = node.Scalar();
      found.is_word = true;
    }  // otherwise null: no value
    for (auto& assignment : from_yaml(found)) content.assignments.push_back(std::move(assignment));
  }

  void walk(const YAML::Node& map, const std::string& prefix) {
    std::set<std::string> seen;
    for (const auto& entry : map) {
      const YAML::Node& name = entry.first;
      const YAML::Node& node = entry.second;
      if (!name.IsScalar()) fail(name, "a key that is not a single word");
      const std::string key = prefix + name.Scalar();
      if (!seen.insert(key).second) fail(name, key + " stands twice — keep one");
      if (!node.IsMap()) {
        add(key, name, node);
        continue;
      }
      // [distributed] exists in this form only; all its keys have other names.
      if (key != "distributed") content.tables.push_back({key, None{}, false, origin(name)});
      walk(node, key + ".");
    }
  }
};

}  // namespace

FileContent read_yaml(const std::filesystem::path& path) {
  const std::string text = read_config_text(path);
  YamlReader reader{path.string(), {}};
  try {
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return {};
    if (!root.IsMap()) {
      throw Error(
          "[config] {}: not a map of sections — write `training:` and indent its keys below",
          reader.file);
    }
    reader.walk(root, "");
  } catch (const YAML::Exception& error) {
    // The text was read already: what is left of this message is the parser's guard against deep
    // nesting.
    const bool deep = error.msg == YAML::ErrorMsg::BAD_FILE;
    throw Error("[config] {}:{}:{}: this is not YAML: {}", reader.file, error.mark.line + 1,
                error.mark.column + 1, deep ? "nested too deeply" : error.msg);
  }
  return std::move(reader.content);
}

}  // namespace titan::config
