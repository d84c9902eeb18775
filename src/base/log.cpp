#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>

#include "base/env.h"

namespace titan::log {
namespace {

spdlog::level::level_enum spdlog_level(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// spdlog prints "warning" and "error" in lower case; the peers' log readers expect Python's names.
class LevelName : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const char* name = message.level == spdlog::level::debug  ? "DEBUG"
                       : message.level == spdlog::level::info ? "INFO"
                       : message.level == spdlog::level::warn ? "WARNING"
                                                              : "ERROR";
    out.append(name, name + std::char_traits<char>::length(name));
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<LevelName>();
  }
};

void install(const Options& options) {
  const auto mode = options.color ? spdlog::color_mode::always : spdlog::color_mode::never;
  spdlog::sink_ptr sink;
  if (options.to_stderr) {
    sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(mode);
  } else {
    sink = std::make_shared<spdlog::sinks::ansicolor_stdout_sink_mt>(mode);
  }
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<LevelName>('*').set_pattern(
      options.prefix + "[titan] %Y-%m-%d %H:%M:%S,%e - root - %^%*%$ - %v");
  auto logger = std::make_shared<spdlog::logger>("titan", sink);
  logger->set_formatter(std::move(formatter));
  logger->set_level(spdlog_level(options.level));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace

void configure(const Options& options) { install(options); }

bool wants_color(int fd) {
  return isatty(fd) == 1 && !env::get("NO_COLOR") && env::get("TERM").value_or("dumb") != "dumb";
}

void write(Level level, std::string_view message) {
  static const bool installed = [] {
    if (spdlog::default_logger()->name() != "titan") install({});
    return true;
  }();
  (void)installed;
  spdlog::default_logger_raw()->log(spdlog_level(level),
                                    spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace titan::log
