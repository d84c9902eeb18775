#include "data/tokenizer/json.h"

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace titan::data {
namespace {

const char* type_name(simdjson::dom::element_type type) {
  using Type = simdjson::dom::element_type;
  switch (type) {
    case Type::ARRAY: return "an array";
    case Type::OBJECT: return "an object";
    case Type::INT64:
    case Type::UINT64: return "an integer";
    case Type::DOUBLE: return "a number";
    case Type::STRING: return "a string";
    case Type::BOOL: return "a boolean";
    case Type::NULL_VALUE: return "null";
  }
  return "something else";
}

}  // namespace

std::string Json::child(std::string_view key) const {
  return key_.empty() ? std::string(key) : fmt::format("{}.{}", key_, key);
}

void Json::fail(const std::string& problem) const {
  throw Error("[tokenizer] {}: {}{}", *file_, key_.empty() ? "" : key_ + ": ", problem);
}

std::optional<Json> Json::find(std::string_view key) const {
  simdjson::dom::object object;
  if (element_.get(object)) fail(fmt::format("an object is needed, this is {}", type_name(element_.type())));
  simdjson::dom::element value;
  if (object.at_key(key).get(value) || value.is_null()) return std::nullopt;
  return Json(value, *file_, child(key));
}

Json Json::at(std::string_view key) const {
  const auto found = find(key);
  if (!found) fail(fmt::format("the key \"{}\" is missing", key));
  return *found;
}

std::string_view Json::string() const {
  std::string_view value;
  if (element_.get(value)) fail(fmt::format("a string is needed, this is {}", type_name(element_.type())));
  return value;
}

int64_t Json::integer() const {
  int64_t value;
  if (element_.get(value)) fail(fmt::format("an integer is needed, this is {}", type_name(element_.type())));
  return value;
}

bool Json::boolean() const {
  bool value;
  if (element_.get(value)) fail(fmt::format("true or false is needed, this is {}", type_name(element_.type())));
  return value;
}

std::vector<Json> Json::items() const {
  simdjson::dom::array array;
  if (element_.get(array)) fail(fmt::format("an array is needed, this is {}", type_name(element_.type())));
  std::vector<Json> items;
  items.reserve(array.size());
  for (const auto value : array) items.emplace_back(value, *file_, fmt::format("{}[{}]", key_, items.size()));
  return items;
}

std::vector<std::pair<std::string_view, Json>> Json::members() const {
  simdjson::dom::object object;
  if (element_.get(object)) fail(fmt::format("an object is needed, this is {}", type_name(element_.type())));
  std::vector<std::pair<std::string_view, Json>> members;
  for (const auto field : object) members.emplace_back(field.key, Json(field.value, *file_, child(field.key)));
  return members;
}

bool Json::boolean_or(std::string_view key, bool fallback) const {
  const auto found = find(key);
  return found ? found->boolean() : fallback;
}

std::string_view Json::string_or(std::string_view key, std::string_view fallback) const {
  const auto found = find(key);
  return found ? found->string() : fallback;
}

JsonFile::JsonFile(const std::filesystem::path& path) : name_(path.string()) {
  const std::string content = files::read(path);
  if (text::trim(content).empty()) throw Error("[tokenizer] {}: the file is empty", name_);
  const auto error = parser_.parse(content).get(root_);
  if (error) {
    throw Error("[tokenizer] {}: not valid JSON ({} bytes): {} — is the file complete?", name_, content.size(),
                simdjson::error_message(error));
  }
}

}  // namespace titan::data
