// One "key = value" as a reader found it, with where it stands: what the TOML and YAML readers and
// the command line hand to load.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/value.h"

namespace titan::config {

struct Origin {
  enum class Kind { kDefault, kFile, kCommandLine, kEnvironment, kDerived };
  Kind kind = Kind::kDefault;
  std::string place;  // file, word of the command line, variable, or the key it was derived from
  int64_t line = 0;   // 1-based, files only
};

// "default", "configs/a.toml:12", "command line (--training.steps)", "environment (WORLD_SIZE)",
// "from model.tokenizer_path".
std::string to_text(const Origin& origin);

struct Assignment {
  std::string key;  // "training.steps", `-` already turned into `_`
  Value value;
  bool is_word = false;  // `value` holds a text that is still to be read by the type of the key
  Origin origin;
};

// What a file holds. Tables are listed apart, so that an unknown empty one is noticed too.
struct FileContent {
  std::vector<Assignment> assignments;
  std::vector<Assignment> tables;  // key and origin only
};

// Throw Error("[config] FILE:LINE: …") for what is no TOML or YAML, duplicate keys and values no
// key can have.
FileContent read_toml(const std::filesystem::path& path);
FileContent read_yaml(const std::filesystem::path& path);

// The text of a config file. Throws Error when it is missing, a folder, unreadable or no text; a
// UTF-8 byte order mark is dropped.
std::string read_config_text(const std::filesystem::path& path);

}  // namespace titan::config
