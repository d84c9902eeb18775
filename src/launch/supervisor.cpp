#include "launch/supervisor.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/error.h"

namespace titan::launch {
namespace {

constexpr double kAfterKill_s = 2;     // then a process the kernel cannot end is left behind
constexpr double kSameSignal_s = 0.2;  // `timeout` signals a process and then its group

// The signals the launcher waits for instead of being interrupted by them.
sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM}) sigaddset(&set, signal);
  struct sigaction hang_up {};
  const bool ignored =  // nohup
      sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler == SIG_IGN;
  if (!ignored) sigaddset(&set, SIGHUP);
  return set;
}

// True once no process of the group is left. Orphans of a rank are ours (see start()): reap them.
bool group_is_gone(pid_t group) {
  while (waitpid(-group, nullptr, WNOHANG) > 0) {
  }
  return kill(-group, 0) != 0;
}

}  // namespace

SignalMask::SignalMask() {
  const sigset_t set = awaited_signals();
  sigprocmask(SIG_BLOCK, &set, &old_);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);  // an ignored one would take the ranks' exit codes away
}

SignalMask::~SignalMask() {
  // A signal that came when all was over must not hide how the ranks ended.
  const sigset_t set = awaited_signals();
  const timespec at_once{};
  while (sigtimedwait(&set, nullptr, &at_once) > 0) {
  }
  sigprocmask(SIG_SETMASK, &old_, nullptr);
}

Supervisor::Supervisor(const Options& options, Guardian& guardian, Output& output)
    : options_(options), guardian_(guardian), output_(output) {}

Supervisor::~Supervisor() {
  signal_all(SIGKILL);
  for (auto& rank : ranks_) {
    if (!rank.running) continue;
    waitpid(rank.child.pid, nullptr, 0);
    guardian_.forget(rank.child.pid);
  }
}

void Supervisor::start(const std::function<std::vector<std::string>(int64_t rank)>& variables) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what a rank leaves behind becomes ours to wait for
  std::vector<std::string> words = {"titan"};
  words.insert(words.end(), options_.words.begin(), options_.words.end());
  std::vector<Output::Pipes> pipes;
  for (int64_t rank = 0; rank < options_.nproc; ++rank) {
    const Child child = start_child(options_.program, words, variables(rank));
    guardian_.watch(child.pid);
    ranks_.push_back({.child = child, .running = true});
    pipes.push_back({child.out_fd, child.err_fd});
  }
  output_.start(pipes);
}

bool Supervisor::any_running() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.running; });
}

void Supervisor::signal_all(int signal) {
  for (const auto& rank : ranks_) {
    if (rank.running) kill(-rank.child.pid, signal);
  }
}

// True when the rank has ended. What it left in its group is killed while its own number still
// keeps the group's from being given to others.
bool Supervisor::reap(int64_t number) {
  Rank& rank = ranks_[static_cast<size_t>(number)];
  siginfo_t info{};
  const auto id = static_cast<id_t>(rank.child.pid);
  if (!rank.running || waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != rank.child.pid)
    return false;
  kill(-rank.child.pid, SIGKILL);
  waitpid(rank.child.pid, &rank.status, 0);
  guardian_.forget(rank.child.pid);
  rank.running = false;
  return true;
}

void Supervisor::end_others(const std::string& why) {
  if (since_term_ || since_kill_ || !any_running()) return;
  output_.say(fmt::format("titan launch: {}; ending the others", why));
  for (auto& rank : ranks_) rank.ended_by_us = rank.running;
  signal_all(SIGTERM);
  since_term_.emplace();
}

void Supervisor::judge(int64_t number) {
  const Rank& rank = ranks_[static_cast<size_t>(number)];
  const int status = rank.status;
  if (status == 0 || rank.ended_by_us) return;
  // SIGINT and SIGTERM ask for exactly these.
  const bool as_asked = stop_signal_ != 0 &&
                        (exit_code(status) == 128 + SIGINT || exit_code(status) == 128 + SIGTERM);
  if (as_asked) return;
  if (!first_failed_) first_failed_ = number;
  end_others(fmt::format("rank {} failed with {}", number, end_text(status)));
}

void Supervisor::stop(int signal) {
  if (stop_signal_ == 0) {
    stop_signal_ = signal;
    since_stop_.reset();
    output_.say(fmt::format("titan launch: {} passed on to the ranks; once more kills them",
                            signal_name(signal)));
    signal_all(signal);
  } else if (since_stop_.seconds() > kSameSignal_s && !since_kill_) {
    output_.say(fmt::format("titan launch: {} again, killing the ranks", signal_name(signal)));
    for (auto& rank : ranks_) rank.ended_by_us = rank.ended_by_us || rank.running;
    killed_by_user_ = true;
    signal_all(SIGKILL);
    since_kill_.emplace();
  }
}

// Seconds until act_on_deadline() has something to do; nullopt: never.
std::optional<double> Supervisor::time_left() const {
  if (since_kill_) return std::max(0.0, kAfterKill_s - since_kill_->seconds());
  if (since_term_) return std::max(0.0, options_.grace_s - since_term_->seconds());
  return std::nullopt;
}

// True when there is no use in waiting longer.
bool Supervisor::act_on_deadline() {
  const auto left = time_left();
  if (!left || *left > 0) return false;
  if (!since_kill_) {
    signal_all(SIGKILL);
    since_kill_.emplace();
    return false;
  }
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (!ranks_[i].running) continue;
    ranks_[i].running = false;
    output_.say(fmt::format("titan launch: rank {} (process {}) does not end, the kernel holds it",
                            i, ranks_[i].child.pid));
  }
  return true;
}

// Of several that ended, SIGCHLD names the first: it caused the others' failure, not they its.
void Supervisor::reap_all(pid_t first) {
  const auto named = std::find_if(ranks_.begin(), ranks_.end(),
                                  [&](const Rank& rank) { return rank.child.pid == first; });
  std::vector<int64_t> ended;
  if (named != ranks_.end() && reap(named - ranks_.begin()))
    ended.push_back(named - ranks_.begin());
  for (int64_t rank = 0; rank < options_.nproc; ++rank) {
    if (reap(rank)) ended.push_back(rank);
  }
  for (const int64_t rank : ended) judge(rank);
}

void Supervisor::watch() {
  const sigset_t set = awaited_signals();
  while (any_running()) {
    siginfo_t info{};
    const double seconds = std::min(time_left().value_or(3600), 3600.0);
    const timespec timeout{static_cast<time_t>(seconds),
                           static_cast<long>(std::fmod(seconds, 1.0) * 1e9)};
    const int signal = sigtimedwait(&set, &info, &timeout);
    if (signal == SIGINT || signal == SIGTERM) stop(signal);
    if (signal == SIGHUP) stop(SIGTERM);
    if (signal == SIGCHLD) reap_all(info.si_pid);
    if (act_on_deadline()) break;
  }
  await_groups();
}

// Killed processes take a moment to go.
void Supervisor::await_groups() const {
  const Stopwatch since;
  for (const auto& rank : ranks_) {
    while (!group_is_gone(rank.child.pid) && since.seconds() < kAfterKill_s) usleep(2000);
  }
}

}  // namespace titan::launch
