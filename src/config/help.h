// Texts made from the schema and the compatibility table: help of a command, the explanation of a
// key, the merged configuration as TOML with origins, as JSON, and the compatibility page.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/load.h"

namespace titan::config {

// All keys of one section ("training", "quantize.linear.float8"), or of every section when
// `section` is empty: name, type, default, help. Throws Error for an unknown section, with the
// nearest one.
std::string help(std::string_view section);

// Type, legal values, default, meaning, support and other names of a key, and its value and origin
// in `loaded` unless it is null; for a section, its keys. Throws Error for an unknown name, with
// the nearest one.
std::string explain(std::string_view name, const Loaded* loaded);

// What `titan train` prints for these words with --help in them: the forms of options, then the
// keys of the section that follows --help, or of all.
std::string train_help(std::span<const std::string> words);

// Sections and what they are for, one a line.
std::string section_list();

// The merged configuration as TOML that reads back to the same values, each line with its origin as
// a comment. only_given leaves out what is at its default.
std::string show(const Loaded& loaded, bool only_given);

enum class Language { kEnglish, kChinese };
// docs/compatibility.md and docs/compatibility.zh-CN.md.
std::string compatibility_page(Language language);

}  // namespace titan::config
