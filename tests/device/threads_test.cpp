#include "device/cpu/threads.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/error.h"
#include "device/cpu/host.h"

namespace titan::device {
namespace {

// Sets or unsets a variable for one test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(Threads, ConfigBeatsTitanThreadsBeatsOmp) {
  const Variable omp("OMP_NUM_THREADS", "3"), ranks("LOCAL_WORLD_SIZE", nullptr);
  {
    const Variable own("TITAN_THREADS", "5");
    EXPECT_EQ(choose_threads(7).count, 7);
    EXPECT_EQ(choose_threads({}).count, 5);
    EXPECT_EQ(choose_threads({}).reason, "TITAN_THREADS");
  }
  const Variable own("TITAN_THREADS", nullptr);
  EXPECT_EQ(choose_threads({}).count, 3);
}

TEST(Threads, CoresAreSharedByTheRanksOfAHost) {
  const Variable omp("OMP_NUM_THREADS", nullptr), own("TITAN_THREADS", nullptr);
  const Variable alone("LOCAL_WORLD_SIZE", nullptr);
  const int64_t cores = choose_threads({}).count;
  EXPECT_GE(cores, 1);
  EXPECT_LE(cores, host::affinity_cores());
  const Variable many("LOCAL_WORLD_SIZE", "100000");
  EXPECT_EQ(choose_threads({}).count, 1);
}

TEST(Threads, BadNumbersAreRefusedByName) {
  EXPECT_THROW(choose_threads(0), Error);
  const Variable own("TITAN_THREADS", "two");
  try {
    choose_threads({});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("TITAN_THREADS=two"), std::string::npos)
        << error.what();
  }
}

TEST(SpinControl, IdleThreadsSleepWhenTheCoresAreContested) {
  const Variable policy("OMP_WAIT_POLICY", nullptr), count("GOMP_SPINCOUNT", nullptr);
  std::atomic<bool> stop = false;
  std::vector<std::thread> busy;
  for (int64_t i = 0; i < 3 * host::affinity_cores(); ++i) {
    busy.emplace_back([&stop] {
      while (!stop) {
      }
    });
  }
  SpinControl control;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!control.sleeping() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(control.sleeping());
  stop = true;
  for (auto& thread : busy) thread.join();
}

TEST(SpinControl, KeepsOutWhenTheUserHasChosen) {
  const Variable policy("OMP_WAIT_POLICY", "active");
  SpinControl control;
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_FALSE(control.sleeping());
}

}  // namespace
}  // namespace titan::device
