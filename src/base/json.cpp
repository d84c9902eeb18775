#include "base/json.h"

#include <limits>
#include <optional>
#include <set>

#include "base/error.h"

namespace titan::json {
namespace {

using Json = nlohmann::json;

std::optional<int64_t> as_size(const Json& value) {
  // A value that was parsed is unsigned from 0 on; one made in memory may be signed.
  if (value.is_number_integer() && !value.is_number_unsigned()) {
    const auto number = value.get<int64_t>();
    return number < 0 ? std::nullopt : std::optional(number);
  }
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<uint64_t>();
  if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::string shortened(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "…";
  return text;
}

// The member, or nullptr when it is absent or null.
const Json* found(const Json& object, const char* key, const std::string& what) {
  if (!object.is_object()) throw Error("{} is {}, an object is needed", what, shortened(object));
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

}  // namespace

Json parse_strict(std::string_view text, const std::string& what, int max_depth) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open, by depth
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    const auto level = static_cast<size_t>(depth);
    if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
      if (depth >= max_depth)
        throw Error("{} nests more than {} levels — the file is damaged", what, max_depth);
      if (keys.size() <= level + 1) keys.resize(level + 2);
      keys[level + 1].clear();
    } else if (event == Json::parse_event_t::key &&
               !keys[level].insert(parsed.get<std::string>()).second) {
      throw Error("{} has the key '{}' twice", what, parsed.get<std::string>());
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::exception& error) {
    throw Error("{} is no valid JSON: {}", what, error.what());
  }
}

const Json& member(const Json& object, const char* key, const std::string& what) {
  if (!object.is_object()) throw Error("{} is {}, an object is needed", what, shortened(object));
  const auto found = object.find(key);
  if (found == object.end()) throw Error("{} has no '{}'", what, key);
  return *found;
}

std::string string_member(const Json& object, const char* key, const std::string& what) {
  member(object, key, what);
  const auto text = optional_string(object, key, what);
  if (!text) throw Error("{}: '{}' is null, a string is needed", what, key);
  return *text;
}

int64_t size_member(const Json& object, const char* key, const std::string& what) {
  member(object, key, what);
  const auto size = optional_size(object, key, what);
  if (!size) throw Error("{}: '{}' is null, a number from 0 is needed", what, key);
  return *size;
}

double number_member(const Json& object, const char* key, const std::string& what) {
  member(object, key, what);
  const auto number = optional_number(object, key, what);
  if (!number) throw Error("{}: '{}' is null, a number is needed", what, key);
  return *number;
}

std::vector<int64_t> sizes_member(const Json& object, const char* key, const std::string& what) {
  const Json& value = member(object, key, what);
  if (!value.is_array())
    throw Error("{}: '{}' is {}, a list is needed", what, key, shortened(value));
  std::vector<int64_t> sizes;
  for (const Json& entry : value) {
    const auto size = as_size(entry);
    if (!size)
      throw Error("{}: '{}' holds {}, numbers from 0 are needed", what, key, shortened(entry));
    sizes.push_back(*size);
  }
  return sizes;
}

std::optional<int64_t> optional_size(const Json& object, const char* key, const std::string& what) {
  const Json* value = found(object, key, what);
  if (!value) return std::nullopt;
  const auto size = as_size(*value);
  if (!size) throw Error("{}: '{}' is {}, a number from 0 is needed", what, key, shortened(*value));
  return size;
}

std::optional<double> optional_number(const Json& object, const char* key,
                                      const std::string& what) {
  const Json* value = found(object, key, what);
  if (!value) return std::nullopt;
  if (!value->is_number())
    throw Error("{}: '{}' is {}, a number is needed", what, key, shortened(*value));
  return value->get<double>();
}

std::optional<std::string> optional_string(const Json& object, const char* key,
                                           const std::string& what) {
  const Json* value = found(object, key, what);
  if (!value) return std::nullopt;
  if (!value->is_string())
    throw Error("{}: '{}' is {}, a string is needed", what, key, shortened(*value));
  return value->get<std::string>();
}

std::optional<bool> optional_bool(const Json& object, const char* key, const std::string& what) {
  const Json* value = found(object, key, what);
  if (!value) return std::nullopt;
  if (!value->is_boolean())
    throw Error("{}: '{}' is {}, true or false is needed", what, key, shortened(*value));
  return value->get<bool>();
}

}  // namespace titan::json
