// The log: one line per event on standard output, "[titan] 2026-01-31 12:00:00,123 - root - INFO -
// message". Headers of this area stay free of spdlog, whose fmt clashes with the copy inside
// libtorch's include folder.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace titan::log {

enum class Level { kDebug, kInfo, kWarning, kError };

struct Options {
  Level level = Level::kInfo;
  bool color = false;  // see wants_color()
  std::string prefix;  // "[rank3]:" before each line of a launched rank; empty otherwise
  bool to_stderr =
      false;  // commands whose standard output is data (tokenizer encode, generate) log to stderr
};

// Not thread-safe against write(); call once at start. Without it lines go to stdout at level info.
void configure(const Options& options);

// True when `fd` is a terminal and neither NO_COLOR nor TERM=dumb says otherwise.
bool wants_color(int fd);

void write(Level level, std::string_view message);

template <class... A>
void debug(fmt::format_string<A...> format, A&&... args) {
  write(Level::kDebug, fmt::format(format, std::forward<A>(args)...));
}
template <class... A>
void info(fmt::format_string<A...> format, A&&... args) {
  write(Level::kInfo, fmt::format(format, std::forward<A>(args)...));
}
template <class... A>
void warning(fmt::format_string<A...> format, A&&... args) {
  write(Level::kWarning, fmt::format(format, std::forward<A>(args)...));
}
template <class... A>
void error(fmt::format_string<A...> format, A&&... args) {
  write(Level::kError, fmt::format(format, std::forward<A>(args)...));
}

}  // namespace titan::log
