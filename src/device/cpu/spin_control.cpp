// How SpinControl makes libgomp's threads sleep: libgomp shortens the spinning of every thread from
// milliseconds to microseconds while it manages more threads than there are cores. A parked helper
// thread that owns a team of sleeping threads brings it over that number; ending the helper brings
// it back. (OMP_WAIT_POLICY would do the same, but libgomp reads it before main() runs, and it
// cannot be changed later.)
#include <dirent.h>
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include "base/env.h"
#include "base/log.h"
#include "device/cpu/host.h"
#include "device/cpu/threads.h"

namespace titan::device {
namespace {

using namespace std::chrono_literals;

constexpr auto kWindow = 250ms;
// Share of the runnable time that was spent waiting for a core. Undisturbed it is below 0.01,
// beside one busy process on two cores about 0.3.
constexpr double kCompeting = 0.10;
constexpr double kQuiet = 0.02;
// Windows in a row that must be quiet before spinning is allowed again.
constexpr int kQuietWindows = 8;

// libgomp's entry for a parallel region: runs body(data) on `threads` threads (part of the
// compiler's ABI).
using GompParallel = void (*)(void (*body)(void*), void* data, unsigned threads, unsigned flags);

GompParallel find_gomp() {
  return reinterpret_cast<GompParallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
}

struct RunTime {
  int64_t ran_ns = 0;
  int64_t waited_ns = 0;
};

// Time on a core and time waiting for one, over all threads of this process, from the scheduler's
// own counters.
RunTime run_time() {
  RunTime total;
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return total;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    std::ifstream file(fmt::format("/proc/self/task/{}/schedstat", entry->d_name));
    int64_t ran = 0, waited = 0;
    if (file >> ran >> waited) {
      total.ran_ns += ran;
      total.waited_ns += waited;
    }
  }
  closedir(tasks);
  return total;
}

// While it lives, libgomp counts more threads than cores.
class SleepingTeam {
 public:
  SleepingTeam(GompParallel gomp, unsigned threads) {
    thread_ = std::thread([this, gomp, threads] {
      gomp([](void*) {}, nullptr, threads, 0);
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return done_; });
    });
  }
  ~SleepingTeam() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  SleepingTeam(const SleepingTeam&) = delete;
  SleepingTeam& operator=(const SleepingTeam&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace

struct SpinControl::State {
  std::mutex mutex;
  std::condition_variable wake;
  bool done = false;
  std::atomic<bool> sleeping = false;
  std::thread watcher;

  void watch(GompParallel gomp) {
    // One more than the cores, whatever the main team's size is.
    const auto team_threads = static_cast<unsigned>(host::affinity_cores() + 1);
    std::optional<SleepingTeam> team;
    int quiet = 0;
    RunTime before = run_time();
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, kWindow, [this] { return done; })) {
      const RunTime now = run_time();
      const double ran = static_cast<double>(now.ran_ns - before.ran_ns);
      const double waited = static_cast<double>(now.waited_ns - before.waited_ns);
      before = now;
      // Threads that ended in between take their share along: a window with negative counts says
      // nothing.
      if (ran < 0 || waited < 0 || ran + waited <= 0) continue;
      const double share = waited / (ran + waited);
      quiet = share < kQuiet ? quiet + 1 : 0;
      if (!team && share > kCompeting) {
        team.emplace(gomp, team_threads);
        log::debug("cpu: others use the cores too (waited {:.0f}% of the time), idle threads sleep",
                   100 * share);
      } else if (team && quiet >= kQuietWindows) {
        team.reset();
        before = run_time();
        log::debug("cpu: the cores are ours again, idle threads spin");
      }
      sleeping = team.has_value();
    }
  }
};

SpinControl::SpinControl() : state_(std::make_unique<State>()) {
  if (env::get("OMP_WAIT_POLICY") || env::get("GOMP_SPINCOUNT")) return;
  if (const GompParallel gomp = find_gomp()) {
    state_->watcher = std::thread([state = state_.get(), gomp] { state->watch(gomp); });
  }
}

SpinControl::~SpinControl() {
  if (!state_->watcher.joinable()) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->done = true;
  }
  state_->wake.notify_all();
  state_->watcher.join();
}

bool SpinControl::sleeping() const { return state_->sleeping; }

}  // namespace titan::device
