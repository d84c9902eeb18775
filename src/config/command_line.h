// The words after `titan train` (and after `titan config check|show|explain`), in TorchTitan's
// forms:
//   --section.key value   --section.key=value   section.key=value   --section.flag
//   --section.no-flag
//   --job.config_file F   --config F            a first bare word F               --help [SECTION]
// `-` and `_` are alike in names. Lists are one word with commas. None means no value.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/assignment.h"
#include "config/schema.h"

namespace titan::config {

struct CommandLine {
  std::vector<std::string> files;       // bare words and --config, in order
  std::vector<Assignment> assignments;  // in order; a later one of the same key wins
  bool help = false;
  std::string help_section;  // "" = all
};

// Reads the words. `keys` says which names are flags. Names are not checked here, load.cpp does
// that for all sources. Throws Error for a name without its value.
CommandLine read_command_line(std::span<const std::string> words, std::span<const Key> keys);

}  // namespace titan::config
