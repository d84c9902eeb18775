// `titan emulate-cann -- COMMAND`: runs a command on emulated Ascend chips, as
// tools/emulate_cann.sh does from a checkout. The emulator's libraries lie in the folder emulator/
// beside the binary; they are found in place of CANN's because the loader reads LD_LIBRARY_PATH
// when a program starts, so the command is a new program.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/env.h"
#include "base/error.h"
#include "cli/command.h"

namespace titan::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEmulateUsage =
    "usage: titan emulate-cann [--] COMMAND…\n"
    "  COMMAND is a program and its arguments; a titan sub-command (train, launch, doctor …) runs "
    "this binary.\n"
    "  CANNEMU_… variables choose the chip, its memory, faults and traces: emulator/README.md.\n";

bool is_subcommand(const std::string& word) {
  for (const Command& command : commands()) {
    if (word == command.name) return true;
  }
  return false;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

int run_emulate_cann(Arguments arguments) {
  std::vector<std::string> words(arguments.begin(), arguments.end());
  if (!words.empty() && words.front() == "--") words.erase(words.begin());
  if (words.empty() || words.front() == "--help" || words.front() == "-h") {
    std::fputs(kEmulateUsage, stdout);
    return words.empty() ? 2 : 0;
  }
  const fs::path binary = fs::read_symlink("/proc/self/exe");
  const fs::path folder = binary.parent_path() / "emulator";
  if (!fs::exists(folder / "libascendcl.so")) {
    throw EnvironmentError(
        "[emulate-cann] there is no emulator in {} — run tools/setup.sh --npu, then cmake --build "
        "build --target emulator",
        folder.string());
  }
  if (is_subcommand(words.front())) words.insert(words.begin(), binary.string());
  std::string path = folder.string();
  if (const auto old = env::get("LD_LIBRARY_PATH"); old && !old->empty()) path += ":" + *old;
  std::vector<std::string> environment = env::with({{"LD_LIBRARY_PATH", path}});
  execvpe(words.front().c_str(), pointers(words).data(), pointers(environment).data());
  throw Error("[emulate-cann] cannot run {}: {}", words.front(), std::strerror(errno));
}

}  // namespace titan::cli
