#include "launch/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace titan::launch {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (const auto& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

struct Pipe {
  int read_end = -1, write_end = -1;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw EnvironmentError("[launch] cannot make a pipe: {} — check ulimit -n",
                           std::strerror(errno));
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {ends[0], ends[1]};
}

// What a child is made of; only what is safe after fork() is done with it.
struct Plan {
  const char* program;
  char** words;
  char** variables;
  int out, err;
  pid_t launcher;
};

[[noreturn]] void become(const Plan& plan) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.launcher) _exit(128 + SIGKILL);  // it died before the line above
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, 0);
  dup2(plan.out, 1);
  dup2(plan.err, 2);
  // Ignored signals and the mask pass through exec.
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGCHLD}) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(plan.program, plan.words, plan.variables);
  const char* reason = std::strerror(errno);
  for (const char* part : {"titan launch: cannot execute ", plan.program, ": ", reason, "\n"})
    [[maybe_unused]] const auto written = write(2, part, std::strlen(part));
  _exit(126);
}

}  // namespace

Child start_child(const std::string& program, const std::vector<std::string>& words,
                  const std::vector<std::string>& variables) {
  auto word_list = pointers(words);
  auto variable_list = pointers(variables);
  const Pipe out = make_pipe();
  const Pipe err = make_pipe();
  const Plan plan{.program = program.c_str(),
                  .words = word_list.data(),
                  .variables = variable_list.data(),
                  .out = out.write_end,
                  .err = err.write_end,
                  .launcher = getpid()};
  const pid_t pid = fork();
  if (pid == 0) become(plan);
  const int reason = errno;
  close(out.write_end);
  close(err.write_end);
  if (pid < 0) {
    throw EnvironmentError("[launch] cannot start a process: {} — check ulimit -u and memory",
                           std::strerror(reason));
  }
  setpgid(pid, pid);  // whoever is first; a signal to the group must not miss it
  return {pid, out.read_end, err.read_end};
}

std::string signal_name(int signal) {
  struct Name {
    int signal;
    const char* name;
  };
  static constexpr Name kNames[] = {
      {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},
      {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
      {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"}, {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"},
      {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"}, {SIGXCPU, "SIGXCPU"},
      {SIGXFSZ, "SIGXFSZ"}, {SIGSYS, "SIGSYS"}};
  for (const auto& known : kNames) {
    if (known.signal == signal) return known.name;
  }
  return fmt::format("signal {}", signal);
}

std::string end_text(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("exit code {}", WEXITSTATUS(status));
  const bool killed = WTERMSIG(status) == SIGKILL;
  return signal_name(WTERMSIG(status)) + (killed ? " (killed from outside, or out of memory)" : "");
}

int exit_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace titan::launch
