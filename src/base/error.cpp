#include "base/error.h"

#include <string_view>

namespace titan {

void fail_check(const char* file, int line, const char* condition, const std::string& what) {
  std::string_view name(file);
  if (const auto at = name.rfind("src/"); at != std::string_view::npos) name.remove_prefix(at + 4);
  throw InternalError(fmt::format("[internal] {} (expected {} at {}:{}) — please report this", what,
                                  condition, name, line));
}

}  // namespace titan
