#include "data/tokenizer/json.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace titan::data {
namespace {

const char* type_name(JsonReader::Type type) {
  using Type = JsonReader::Type;
  switch (type) {
    case Type::kArray:
      return "an array";
    case Type::kObject:
      return "an object";
    case Type::kNumber:
      return "a number";
    case Type::kString:
      return "a string";
    case Type::kTrue:
    case Type::kFalse:
      return "true or false";
    case Type::kNull:
      return "null";
  }
  return "something else";
}

}  // namespace

std::string Json::child(std::string_view key) const {
  return key_.empty() ? std::string(key) : fmt::format("{}.{}", key_, key);
}

const JsonReader& Json::reader() const { return file_->reader(); }

void Json::fail(const std::string& problem) const {
  throw Error("[tokenizer] {}: {}{}", file_->name(), key_.empty() ? "" : key_ + ": ", problem);
}

void Json::need(bool condition, const char* what) const {
  if (!condition) fail(fmt::format("{} is needed, this is {}", what, type_name(type())));
}

std::optional<Json> Json::find(std::string_view key) const {
  need(is_object(), "an object");
  const auto found = reader().member(index_, key);
  if (!found || reader().node(*found).type == JsonReader::Type::kNull) return std::nullopt;
  return Json(*file_, *found, child(key));
}

Json Json::at(std::string_view key) const {
  const auto found = find(key);
  if (!found) fail(fmt::format("the key \"{}\" is missing", key));
  return *found;
}

std::string_view Json::string() const {
  need(is_string(), "a string");
  return reader().node(index_).text;
}

int64_t Json::integer() const {
  need(type() == JsonReader::Type::kNumber, "an integer");
  const std::string_view text = reader().node(index_).text;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(fmt::format("an integer is needed, this is {}", text));
  return value;
}

double Json::number() const {
  need(type() == JsonReader::Type::kNumber, "a number");
  return std::strtod(std::string(reader().node(index_).text).c_str(), nullptr);
}

bool Json::boolean() const {
  need(type() == JsonReader::Type::kTrue || type() == JsonReader::Type::kFalse, "true or false");
  return type() == JsonReader::Type::kTrue;
}

std::vector<Json> Json::items() const {
  need(is_array(), "an array");
  std::vector<Json> items;
  reader().for_each_item(index_, [&](uint32_t index) {
    items.emplace_back(*file_, index, fmt::format("{}[{}]", key_, items.size()));
  });
  return items;
}

std::vector<std::pair<std::string_view, Json>> Json::members() const {
  need(is_object(), "an object");
  std::vector<std::pair<std::string_view, Json>> members;
  reader().for_each_member(index_, [&](std::string_view key, uint32_t index) {
    members.emplace_back(key, Json(*file_, index, child(key)));
  });
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

JsonFile::JsonFile(const std::filesystem::path& path)
    : name_(path.string()), content_(files::read(path)) {
  if (text::trim(content_).empty()) throw Error("[tokenizer] {}: the file is empty", name_);
  if (!text::is_valid_utf8(content_)) throw Error("[tokenizer] {}: the file is not UTF-8", name_);
  const auto problem = reader_.parse(content_);
  if (!problem) return;
  const auto here = content_.begin() + static_cast<std::ptrdiff_t>(problem->offset);
  const auto line = std::count(content_.begin(), here, '\n') + 1;
  const size_t line_start =
      problem->offset == 0 ? 0 : content_.rfind('\n', problem->offset - 1) + 1;
  throw Error(
      "[tokenizer] {}, line {}, column {}: not valid JSON: {} — is the file complete ({} bytes)?",
      name_, line, problem->offset - line_start + 1, problem->what, content_.size());
}

}  // namespace titan::data
