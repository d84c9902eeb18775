// Errors of titan. A user or environment error is thrown as titan::Error with one sentence that
// says the area, what is wrong, the value, and what to do; cli/main.cpp alone prints it and picks
// the exit code. A broken invariant of our own is TITAN_CHECK. Expected absence is std::optional,
// never an exception.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace titan {

// Exit codes of the binary (documented in docs/cli.md). Never renumber.
enum class ExitCode : int {
  kOk = 0,
  kInternal = 1,     // a broken invariant or an unexpected failure inside titan
  kUsage = 2,        // bad input: command line, config, data, checkpoint
  kEnvironment = 3,  // the machine lacks something: device, library, disk space, permission
  kInterrupted = 130,
  kTerminated = 143,
};

class Error : public std::runtime_error {
 public:
  // Error("[data] cannot open {}: {} — check dataset_path", path, reason)
  template <class... A>
  explicit Error(fmt::format_string<A...> format, A&&... args)
      : std::runtime_error(fmt::format(format, std::forward<A>(args)...)) {}

  ExitCode code() const { return code_; }

 protected:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

 private:
  ExitCode code_ = ExitCode::kUsage;
};

// The machine, not the input, is at fault (exit code 3).
class EnvironmentError : public Error {
 public:
  template <class... A>
  explicit EnvironmentError(fmt::format_string<A...> format, A&&... args)
      : Error(ExitCode::kEnvironment, fmt::format(format, std::forward<A>(args)...)) {}
};

// A broken invariant of titan itself (exit code 1).
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(ExitCode::kInternal, message) {}
};

[[noreturn]] void fail_check(const char* file, int line, const char* condition,
                             const std::string& what);

}  // namespace titan

#define TITAN_CHECK(condition, ...)                                                  \
  do {                                                                               \
    if (!(condition))                                                                \
      ::titan::fail_check(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (false)
