// From the words of `titan train` to a checked JobConfig. Precedence: command line, file,
// environment (process ranks only), defaults. Every value knows where it came from; everything
// illegal is reported at once, by file, line and key.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/assignment.h"
#include "config/command_line.h"
#include "config/compatibility.h"
#include "config/job_config.h"

namespace titan::config {

struct Loaded {
  JobConfig config;
  std::map<std::string, Origin> origins;  // of every key that is not at its default
  std::vector<std::string>
      warnings;  // accepted without effect, older names, doubtful settings; to be logged
  std::vector<std::string>
      not_built;  // features the config needs and titan lacks; empty: it can run

  // True when file or command line gave the key a value.
  bool given(std::string_view key) const { return origins.contains(std::string(key)); }
  // "configs/a.toml:12", "default".
  std::string origin(std::string_view key) const;
};

// `words` as after `titan train`. Throws Error that lists every unknown key, wrong value and broken
// rule. What is legal but not built is only listed in the result: see require_runnable().
Loaded load(std::span<const std::string> words);

// The same for words that were read already and one file or none.
Loaded load(const CommandLine& command_line, const std::optional<std::filesystem::path>& file);

// Throws Error naming each feature in `not_built`.
void require_runnable(const Loaded& loaded);

// True when the words ask for help; then print help(words) and end.
bool wants_help(std::span<const std::string> words);

// The merged configuration as indented JSON (job.print_config, job.save_config_file, checkpoints).
// None is null.
std::string to_json(const JobConfig& config);

}  // namespace titan::config
