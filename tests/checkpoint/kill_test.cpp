// A writer is killed at random moments; whatever it leaves, every listed step is complete and
// right.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "base/clock.h"
#include "base/error.h"
#include "checkpoint/folder.h"
#include "checkpoint/store.h"

namespace titan::checkpoint {
namespace {
namespace fs = std::filesystem;

// Every value is a function of the step, so that a mixture of two steps shows.
Snapshot snapshot_at(int64_t step) {
  Snapshot snapshot;
  for (int i = 0; i < 4; ++i) {
    const std::string name = fmt::format("layers.{}.weight", i);
    snapshot.model.push_back({name, at::full({64, 64}, static_cast<double>(step + i))});
    snapshot.optimizer.push_back(
        {optimizer_name("exp_avg", name), at::full({64, 64}, static_cast<double>(step - i))});
  }
  snapshot.state = {{"step", step}};
  return snapshot;
}

// Saves step 1, 2, … and now and then an earlier step again, until it is killed.
[[noreturn]] void write_until_killed(const fs::path& folder) {
  for (int64_t step = latest(folder).value_or(0);; ++step) {
    save(folder, step, snapshot_at(step), {.keep_latest_k = 3, .max_file_bytes = 40000});
    if (step % 3 == 2) save(folder, step - 1, snapshot_at(step - 1), {.max_file_bytes = 40000});
  }
}

void expect_right(const StepInfo& info) {
  const Step step(info.path);
  const Snapshot expected = snapshot_at(info.step);
  EXPECT_EQ(step.state()["step"], info.step);
  for (const auto part : {Part::kModel, Part::kOptimizer}) {
    const auto& tensors = part == Part::kModel ? expected.model : expected.optimizer;
    std::vector<NamedTensor> loaded;
    for (const auto& [name, tensor, placement] : tensors)
      loaded.push_back({name, at::zeros_like(tensor)});
    load_part(step, part, loaded);
    for (size_t i = 0; i < tensors.size(); ++i)
      EXPECT_TRUE(at::equal(loaded[i].tensor, tensors[i].tensor));
  }
}

TEST(Kill, AtAnyMomentLeavesOnlyCompleteSteps) {
  const TestFolder folder;
  at::set_num_threads(1);
  std::mt19937 random(20);
  int kills_inside_a_save = 0;
  int64_t newest = -1;
  const Stopwatch stopwatch;
  for (int64_t step = 0; step < 3; ++step)
    save(folder.path(), step, snapshot_at(step), {.max_file_bytes = 40000});
  const double save_s = stopwatch.seconds() / 3;
  // Until kills have hit enough saves and saves have got through; the waits grow, so a busy machine
  // only takes longer.
  double longest_wait_s = 4 * save_s;
  for (int round = 0; round < 60 || kills_inside_a_save <= 20 || newest <= 3; ++round) {
    ASSERT_LT(round, 600) << kills_inside_a_save << " kills inside a save, newest step " << newest;
    if (round >= 60) longest_wait_s *= 1.02;
    std::uniform_real_distribution<double> moment_s(0, longest_wait_s);
    const pid_t writer = ::fork();
    ASSERT_GE(writer, 0);
    if (writer == 0) write_until_killed(folder.path());
    ::usleep(static_cast<useconds_t>(1e6 * moment_s(random)));
    ::kill(writer, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(writer, &status, 0), writer);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    const auto steps = list_steps(folder.path());
    for (const auto& step : steps) expect_right(step);
    // Progress is never lost: the newest step stays the newest until a newer one is complete.
    const int64_t now = latest(folder.path()).value_or(-1);
    EXPECT_GE(now, newest);
    newest = now;
    kills_inside_a_save += remove_leftovers(folder.path()).empty() ? 0 : 1;
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      EXPECT_EQ(entry.path().filename().string().find('.'), std::string::npos) << entry.path();
    }
    if (HasFailure()) FAIL() << "round " << round;
  }
}

}  // namespace
}  // namespace titan::checkpoint
