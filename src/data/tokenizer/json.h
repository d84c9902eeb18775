// JSON files of tokenizers, with errors that name the file and the key ("model.merges[17]").
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/json_reader.h"

namespace titan::data {

class JsonFile;

// A value inside a JsonFile, valid as long as that.
class Json {
 public:
  Json(const JsonFile& file, uint32_t index, std::string key)
      : file_(&file), index_(index), key_(std::move(key)) {}

  // Member of an object; nullopt when it is absent or null. Throws when this is no object.
  std::optional<Json> find(std::string_view key) const;
  Json at(std::string_view key) const;  // throws when absent or null

  std::string_view string() const;
  int64_t integer() const;
  double number() const;
  bool boolean() const;
  std::vector<Json> items() const;                                 // of an array
  std::vector<std::pair<std::string_view, Json>> members() const;  // of an object, in file order

  bool is_string() const { return type() == JsonReader::Type::kString; }
  bool is_array() const { return type() == JsonReader::Type::kArray; }
  bool is_object() const { return type() == JsonReader::Type::kObject; }

  bool boolean_or(std::string_view key, bool fallback) const;
  std::string_view string_or(std::string_view key, std::string_view fallback) const;

  // Throws Error("[tokenizer] FILE: KEY: problem").
  [[noreturn]] void fail(const std::string& problem) const;

  // For long arrays and objects: the reader and this value's index in it.
  const JsonReader& reader() const;
  uint32_t index() const { return index_; }

 private:
  JsonReader::Type type() const { return reader().node(index_).type; }
  void need(bool condition, const char* what) const;
  std::string child(std::string_view key) const;

  const JsonFile* file_;
  uint32_t index_;
  std::string key_;
};

// A whole file, parsed and kept in memory.
class JsonFile {
 public:
  explicit JsonFile(const std::filesystem::path& path);
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;
  Json root() const { return Json(*this, 0, ""); }
  const std::string& name() const { return name_; }
  const JsonReader& reader() const { return reader_; }

 private:
  std::string name_, content_;
  JsonReader reader_;
};

}  // namespace titan::data
