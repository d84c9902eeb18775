// Runs the built binary as a user does: words in, exit code and texts out.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace titan::cli {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

inline std::string shell_quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// `folder` receives the captured error text; it must exist.
inline Outcome run_titan(const std::vector<std::string>& words,
                         const std::filesystem::path& folder) {
  const auto err_path = folder / "stderr.txt";
  std::string command = shell_quoted(TITAN_BINARY);
  for (const auto& word : words) command += " " + shell_quoted(word);
  command += " 2>" + shell_quoted(err_path.string());
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return outcome;
  char buffer[4096];
  size_t size = 0;
  while ((size = fread(buffer, 1, sizeof buffer, pipe)) > 0) outcome.out.append(buffer, size);
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::ifstream err(err_path);
  outcome.err.assign(std::istreambuf_iterator<char>(err), {});
  return outcome;
}

}  // namespace titan::cli
