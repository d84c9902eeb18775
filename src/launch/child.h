// One rank as a process: started in a group of its own, with its output in two pipes, and bound to
// die with the launcher.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace titan::launch {

struct Child {
  pid_t pid = -1;   // also its process group
  int out_fd = -1;  // read end of its standard output; not blocking
  int err_fd = -1;  // the same of its standard error
};

// Starts `program` with `words` (the first is its name for itself) and the variables "NAME=value".
// Standard input is empty. Only from the thread that lives as long as the ranks: the kernel ends a
// rank when the thread that started it ends. Throws EnvironmentError; a program that cannot be
// executed is a child that says so on its standard error and exits with 126.
Child start_child(const std::string& program, const std::vector<std::string>& words,
                  const std::vector<std::string>& variables);

// "exit code 2", "SIGSEGV", of a status of waitpid().
std::string end_text(int status);
// 2, or 128 + the signal's number, as a shell says it.
int exit_code(int status);
// "SIGTERM", "signal 35".
std::string signal_name(int signal);

}  // namespace titan::launch
