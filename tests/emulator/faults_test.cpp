// Faults on demand. They stay with a process, as with a chip, so each test forks one before the
// device is opened.
#include <sys/wait.h>
#include <torch_npu/csrc/core/npu/NPUFunctions.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "emulator/npu.h"

namespace npu_test {
namespace {

// What a child process, in which `orders` hold, throws; empty when it does not.
std::string thrown(const char* orders, const std::function<void()>& body) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string what;
    try {
      device();
      set_fault(orders);
      body();
    } catch (const std::exception& error) {
      what = error.what();
    }
    const ssize_t written = write(ends[1], what.data(), what.size());
    _exit(written >= 0 ? 0 : 1);
  }
  close(ends[1]);
  std::string text(1 << 16, '\0');
  size_t size = 0;
  for (ssize_t got; (got = read(ends[0], text.data() + size, text.size() - size)) > 0;) size += got;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  text.resize(size);
  return text;
}

Tensor ones(at::IntArrayRef shape) { return at::ones(shape, at::TensorOptions(device())); }

void expect_contains(const std::string& text, const char* part) {
  EXPECT_NE(text.find(part), std::string::npos) << "got: " << text.substr(0, 600);
}

TEST(Faults, NoneByDefault) {
  EXPECT_EQ(thrown("", [] { EXPECT_EQ(ones({4}).sum().item<double>(), 4); }), "");
}

TEST(Faults, OutOfMemoryFromTheSecondAllocationOn) {
  expect_contains(thrown("oom@2",
                         [] {
                           const Tensor first = ones({64 << 20});
                           const Tensor second = ones({64 << 20}), third = ones({64 << 20});
                         }),
                  "out of memory");
}

TEST(Faults, AFailedKernelShowsAtTheNextWait) {
  expect_contains(thrown("kernel:aclnnMm@2",
                         [] {
                           const Tensor a = ones({4, 4});
                           const Tensor b = at::mm(a, a);
                           c10_npu::npuSynchronizeDevice();
                           const Tensor c = at::mm(b, a);
                           c10_npu::npuSynchronizeDevice();
                         }),
                  "507015");
}

TEST(Faults, AnOrderForAnotherRankDoesNothing) {
  EXPECT_EQ(thrown("kernel:aclnnMm@1/rank5",
                   [] {
                     const Tensor a = ones({4, 4});
                     at::mm(a, a).cpu();
                   }),
            "");
}

TEST(Faults, ALostDevice) {
  expect_contains(thrown("device-lost@1",
                         [] {
                           ones({4}).cpu();
                           c10_npu::npuSynchronizeDevice();
                         }),
                  "inner error");
}

// What the next test runs.
TEST(Counts, DISABLED_Program) { ones({4}).mul_(3).cpu(); }

TEST(Counts, AreWrittenWhenAProcessEnds) {
  const auto file =
      std::filesystem::temp_directory_path() / ("emulator_counts_" + std::to_string(getpid()));
  const pid_t child = fork();
  if (child == 0) {
    setenv("CANNEMU_STATS", file.c_str(), 1);
    // The settings are read when the adapter is loaded, so this takes a program of its own.
    execl("/proc/self/exe", "faults_test", "--gtest_also_run_disabled_tests",
          "--gtest_filter=Counts.DISABLED_Program", nullptr);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  std::filesystem::remove(file);
  expect_contains(text.str(), "\"aclnnInplaceMuls\": 1");
  expect_contains(text.str(), "\"peak_bytes\": ");
}

}  // namespace
}  // namespace npu_test
