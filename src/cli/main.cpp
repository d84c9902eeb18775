// The entry point. It finds the sub-command, and it is the only place that prints an error and
// picks the exit code.
#include <c10/util/Exception.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "device/npu/error_codes.h"
#include "device/registry.h"

namespace titan::cli {
namespace {

void print_help() {
  std::printf(
      "titan trains large language models on Ascend NPUs, NVIDIA GPUs and CPUs.\n\nusage: titan "
      "COMMAND …\n\n");
  for (const auto& command : commands()) std::printf("  %-12s %s\n", command.name, command.summary);
  std::printf("\ntitan COMMAND --help says more. Documentation: docs/ in the source tree.\n");
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print_help();
    return words.empty() ? static_cast<int>(ExitCode::kUsage) : 0;
  }
  const std::string name = words[0] == "--version" || words[0] == "-V" ? "version" : words[0];
  std::vector<std::string> names;
  for (const auto& command : commands()) {
    if (name == command.name) return command.run(Arguments(words).subspan(1));
    names.emplace_back(command.name);
  }
  const auto hint = text::nearest(name, names);
  throw Error("[cli] no command '{}'{} — titan --help lists them", name,
              hint ? fmt::format(", did you mean '{}'?", *hint) : "");
}

void print_error(std::string_view message) {
  const char* rank = std::getenv("RANK");
  std::fflush(stdout);
  std::fprintf(stderr, "titan: %s%.*s\n", rank ? fmt::format("rank {}: ", rank).c_str() : "",
               static_cast<int>(message.size()), message.data());
}

// What libtorch says, without the C++ frames and the advice for Python users that may follow.
std::string first_line(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

// The CPU's allocator has no exception type of its own for this.
bool is_out_of_memory(const c10::Error& error) {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         first_line(error).find("can't allocate memory") != std::string::npos;
}

ExitCode report(const c10::Error& error) {
  if (!is_out_of_memory(error)) {
    if (const auto meaning = device::npu::explain_error(error.what_without_backtrace())) {
      print_error(fmt::format("[npu] {} ({})", *meaning, first_line(error)));
      return ExitCode::kEnvironment;
    }
    print_error("[torch] " + first_line(error));
    return ExitCode::kInternal;
  }
  print_error(
      fmt::format("[memory] {} — lower training.local_batch_size or seq_len, or set "
                  "activation_checkpoint.mode = \"full\"",
                  first_line(error)));
  return ExitCode::kEnvironment;
}

}  // namespace
}  // namespace titan::cli

int main(int argc, char** argv) {
  using titan::ExitCode;
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    const int code = titan::cli::dispatch(words);
    titan::device::close_modules();
    return code;
  } catch (const titan::Error& error) {
    titan::cli::print_error(error.what());
    return static_cast<int>(error.code());
  } catch (const c10::Error& error) {
    return static_cast<int>(titan::cli::report(error));
  } catch (const std::bad_alloc&) {
    titan::cli::print_error(
        "[memory] the machine has no memory left — lower training.local_batch_size or seq_len");
    return static_cast<int>(ExitCode::kEnvironment);
  } catch (const std::exception& error) {
    const auto meaning = titan::device::npu::explain_error(error.what());
    titan::cli::print_error(meaning ? "[npu] " + *meaning
                                    : std::string("[internal] ") + error.what());
    if (meaning) return static_cast<int>(titan::ExitCode::kEnvironment);
  }
  return static_cast<int>(ExitCode::kInternal);
}
