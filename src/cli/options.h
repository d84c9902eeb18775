// Reading the options of a sub-command with CLI11, the same way in each.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace titan::cli {

// Parses `arguments` into what `app`'s options point at. False when --help was asked for and
// printed. Throws Error naming the command for anything else that is wrong.
bool parse_options(CLI::App& app, Arguments arguments);

}  // namespace titan::cli
