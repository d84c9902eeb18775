#include "launch/guardian.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace titan::launch {
namespace {

// The guardian's life: +group and -group messages until the launcher's end of the pipe closes.
[[noreturn]] void guard(int pipe) {
  setsid();  // the terminal's signals and a kill of the launcher's group pass by
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT}) ::signal(signal, SIG_IGN);
  const int nowhere = open("/dev/null", O_RDWR);
  for (const int fd : {0, 1, 2}) dup2(nowhere, fd);
  std::vector<pid_t> groups;
  pid_t message = 0;
  for (;;) {
    const ssize_t size = read(pipe, &message, sizeof message);
    if (size < 0 && errno == EINTR) continue;
    if (size != sizeof message) break;
    if (message > 0)
      groups.push_back(message);
    else
      groups.erase(std::remove(groups.begin(), groups.end(), -message), groups.end());
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

Guardian::Guardian() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw EnvironmentError("[launch] cannot make a pipe: {}", std::strerror(errno));
  pid_ = fork();
  if (pid_ == 0) {
    close(ends[1]);
    guard(ends[0]);
  }
  const int reason = errno;
  close(ends[0]);
  pipe_ = ends[1];
  if (pid_ < 0) {
    close(pipe_);
    throw EnvironmentError("[launch] cannot start a process: {} — check ulimit -u",
                           std::strerror(reason));
  }
}

Guardian::~Guardian() {
  close(pipe_);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guardian::watch(pid_t group) { tell(group); }

void Guardian::forget(pid_t group) { tell(-group); }

void Guardian::tell(pid_t message) {
  // Four bytes are written whole or not at all; a guardian that somebody killed hears nothing.
  while (write(pipe_, &message, sizeof message) < 0 && errno == EINTR) {
  }
}

}  // namespace titan::launch
