// The ranks of a job from the first to the last breath: started, watched, stopped and ended
// together. One thread does it all by waiting for signals, so that nothing it may have to wait for
// (a terminal, a disk) delays the end of the ranks.
#pragma once

#include <signal.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launch/child.h"
#include "launch/guardian.h"
#include "launch/options.h"
#include "launch/output.h"

namespace titan::launch {

// Blocks the signals that a Supervisor awaits while it lives. Afterwards Ctrl-C ends the launcher
// as any program.
class SignalMask {
 public:
  SignalMask();
  ~SignalMask();
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

 private:
  sigset_t old_;
};

struct Rank {
  Child child;
  bool running = false;
  bool ended_by_us = false;  // not by a fault of its own
  int status = 0;            // of waitpid(), once it has ended
};

// REQUIRES: a SignalMask in the same thread while start() and watch() run.
class Supervisor {
 public:
  Supervisor(const Options& options, Guardian& guardian, Output& output);
  ~Supervisor();  // kills what is left
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // `variables(rank)` is a rank's environment. Throws EnvironmentError.
  void start(const std::function<std::vector<std::string>(int64_t rank)>& variables);
  // Returns when all ranks are gone: by themselves; at most options.grace_s and a moment after the
  // first has failed; or when signals to this process have stopped them.
  void watch();

  const std::vector<Rank>& ranks() const { return ranks_; }
  std::optional<int64_t> first_failed() const { return first_failed_; }
  int stop_signal() const { return stop_signal_; }     // SIGINT, SIGTERM or 0
  bool was_killed() const { return killed_by_user_; }  // by the second signal

 private:
  void signal_all(int signal);
  bool reap(int64_t rank);
  void reap_all(pid_t first);
  void judge(int64_t rank);
  void stop(int signal);
  void end_others(const std::string& why);
  bool any_running() const;
  std::optional<double> time_left() const;
  bool act_on_deadline();
  void await_groups() const;

  const Options& options_;
  Guardian& guardian_;
  Output& output_;
  std::vector<Rank> ranks_;
  std::optional<int64_t> first_failed_;
  int stop_signal_ = 0;
  bool killed_by_user_ = false;
  Stopwatch since_stop_;
  std::optional<Stopwatch> since_term_, since_kill_;
};

}  // namespace titan::launch
