// The keys of a JobConfig as a list, made from the describe() of its sections: what every reader,
// help text, check and documentation page walks.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/field.h"
#include "config/job_config.h"
#include "config/value.h"

namespace titan::config {

// Where a key's value lives inside a JobConfig.
using Slot = std::variant<bool*, int64_t*, double*, std::string*, TextList*, std::optional<bool>*,
                          std::optional<int64_t>*, std::optional<double>*,
                          std::optional<std::string>*, std::optional<TextLists>*>;

struct Key {
  std::string path;  // "training.steps"
  const char* help;
  Check check;
  Slot slot;

  bool optional() const;             // may hold no value (None)
  bool is_flag() const;              // true or false
  std::string type_name() const;     // "int", "real", "text", "list", … with "optional" before it
  std::string_view section() const;  // all before the last dot
  std::string_view name() const;     // all after it
};

// Every key, in the order of the structs. The slots point into `config`, which must outlive the
// list.
std::vector<Key> keys(JobConfig& config);

struct SectionInfo {
  std::string name;  // "training"
  const char* help;
};
std::vector<SectionInfo> sections();

// The key with this path; nullptr when there is none.
const Key* find(std::span<const Key> keys, std::string_view path);

Value get(const Key& key);

// Stores `value` if it has the key's type (an integer is a legal real) and satisfies its check.
// Otherwise stores nothing and returns what is wrong and what would be right: `expects an integer,
// at least 1, but got "ten"`.
std::optional<std::string> assign(const Key& key, const Value& value);

// The same for a word of the command line: reads it by the key's type. Lists are separated by
// commas, lists of lists by semicolons; None means no value.
std::optional<std::string> assign_text(const Key& key, std::string_view word);

// "an integer, at least 1, or -1", "one of linear, sqrt, cosine".
std::string expectation(const Key& key);

}  // namespace titan::config
