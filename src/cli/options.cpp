#include "cli/options.h"

#include <string>
#include <vector>

#include "base/error.h"

namespace titan::cli {

bool parse_options(CLI::App& app, Arguments arguments) {
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& help) {
    app.exit(help);
    return false;
  } catch (const CLI::ParseError& error) {
    throw Error("[cli] {}: {} — see {} --help", app.get_name(), error.what(), app.get_name());
  }
  return true;
}

}  // namespace titan::cli
