// Other spellings users have: keys of older releases, keys that modules of TorchTitan add, and the
// YAML form. Each is turned into the key it means before anything else looks at it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/assignment.h"

namespace titan::config {

enum class AliasEffect {
  kRename,    // means the key `to`
  kIgnore,    // accepted without effect, `note` says why
  kNotBuilt,  // legal, but of a feature that titan does not have
};

struct Alias {
  const char* from;
  AliasEffect effect;
  const char* to;  // kRename only
  const char* note;
  const char* note_zh;
  bool flag = false;  // on the command line it stands alone, without a value
};

// Keys of v0.2.0 and v0.2.1, keys that custom_config_module brings, and short options.
std::span<const Alias> aliases();
const Alias* find_alias(std::string_view key);

// Keys of the YAML form that differ from the TOML's; values may change too (see from_yaml).
std::span<const Alias> yaml_aliases();

// What a key of the YAML form means: one or more assignments to TOML keys. A key that is no alias
// comes back unchanged.
std::vector<Assignment> from_yaml(const Assignment& assignment);

// "simple_fsdp.llama3" -> "llama3": the family whose maths a TorchTitan experiment trains. nullopt:
// no such alias.
std::optional<std::string> model_alias(std::string_view name);

// "float8" -> "quantize.linear.float8".
std::string converter_name(std::string_view name);

}  // namespace titan::config
