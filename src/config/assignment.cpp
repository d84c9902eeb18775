#include "config/assignment.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace titan::config {
namespace fs = std::filesystem;

std::string to_text(const Origin& origin) {
  switch (origin.kind) {
    case Origin::Kind::kDefault:
      return "default";
    case Origin::Kind::kFile:
      return fmt::format("{}:{}", origin.place, origin.line);
    case Origin::Kind::kCommandLine:
      return fmt::format("command line ({})", origin.place);
    case Origin::Kind::kEnvironment:
      return fmt::format("environment ({})", origin.place);
    case Origin::Kind::kDerived:
      return "from " + origin.place;
  }
  return "";
}

std::string read_config_text(const fs::path& path) {
  std::error_code code;
  const auto status = fs::status(path, code);
  if (!fs::exists(status)) {
    throw Error("[config] no file {} (looked in {}) — check the path of the config file",
                path.string(), fs::current_path(code).string());
  }
  if (fs::is_directory(status)) {
    throw Error("[config] {} is a folder — name the TOML or YAML file in it", path.string());
  }
  std::string content = files::read(path);
  if (content.starts_with("\xEF\xBB\xBF")) content.erase(0, 3);
  if (content.starts_with("\xFF\xFE") || content.starts_with("\xFE\xFF")) {
    throw Error("[config] {} is UTF-16 text — save it as UTF-8", path.string());
  }
  if (!text::is_valid_utf8(content)) {
    int64_t line = 1;
    for (const auto& row : text::split(content, '\n')) {
      if (!text::is_valid_utf8(row)) break;
      ++line;
    }
    throw Error("[config] {}:{}: the line is not valid UTF-8 — save the file as UTF-8",
                path.string(), line);
  }
  if (const auto at = content.find('\0'); at != std::string::npos) {
    throw Error("[config] {}:{}: a zero byte — this is no text file", path.string(),
                1 + std::count(content.begin(), content.begin() + static_cast<int64_t>(at), '\n'));
  }
  return content;
}

}  // namespace titan::config
