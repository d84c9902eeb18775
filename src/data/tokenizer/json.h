// Reading JSON files of tokenizers with errors that name the file and the key ("model.merges[17]").
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace titan::data {

// A value inside a parsed file. Views into the parser's memory: valid as long as its JsonFile.
class Json {
 public:
  Json(simdjson::dom::element element, const std::string& file, std::string key)
      : element_(element), file_(&file), key_(std::move(key)) {}

  // Member of an object; nullopt when it is absent or null. Throws when this is no object.
  std::optional<Json> find(std::string_view key) const;
  Json at(std::string_view key) const;  // throws when absent or null

  std::string_view string() const;
  int64_t integer() const;
  bool boolean() const;
  std::vector<Json> items() const;                               // of an array
  std::vector<std::pair<std::string_view, Json>> members() const;  // of an object, in file order

  bool is_string() const { return element_.is_string(); }
  bool is_array() const { return element_.is_array(); }
  bool is_object() const { return element_.is_object(); }
  bool is_number() const { return element_.is_number(); }

  bool boolean_or(std::string_view key, bool fallback) const;
  std::string_view string_or(std::string_view key, std::string_view fallback) const;

  // Throws Error("[tokenizer] FILE: KEY: problem").
  [[noreturn]] void fail(const std::string& problem) const;

  const simdjson::dom::element& element() const { return element_; }
  const std::string& key() const { return key_; }

 private:
  std::string child(std::string_view key) const;

  simdjson::dom::element element_;
  const std::string* file_;
  std::string key_;
};

// Parses a whole file and keeps it in memory.
class JsonFile {
 public:
  explicit JsonFile(const std::filesystem::path& path);
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;
  Json root() const { return Json(root_, name_, ""); }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  simdjson::dom::parser parser_;
  simdjson::dom::element root_;
};

}  // namespace titan::data
