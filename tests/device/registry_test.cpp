#include "device/registry.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace titan::device {
namespace {

using testing::HasSubstr;

template <class E>
std::string message_of(const std::string& device) {
  try {
    open_backend({.name = device, .threads = 1});
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

class Modules : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / "titan_modules";
    std::filesystem::create_directories(folder_);
    setenv("TITAN_MODULES", folder_.c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    unsetenv("TITAN_MODULES");
  }
  std::filesystem::path folder_;
};

TEST_F(Modules, AnUnknownNameIsBadInput) {
  EXPECT_THAT(message_of<Error>("gpu"), HasSubstr("device.name = \"gpu\" is not a device"));
}

TEST_F(Modules, AMissingFileIsNotPartOfThisBuild) {
  const std::string message = message_of<EnvironmentError>("npu");
  EXPECT_THAT(message, HasSubstr("device 'npu' cannot be used: not part of this build"));
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST_F(Modules, ABrokenFileGivesTheLoadersReason) {
  std::ofstream(folder_ / "libtitan_cuda.so") << "not a library";
  EXPECT_THAT(message_of<EnvironmentError>("cuda"), HasSubstr("its libraries cannot be loaded: "));
  const auto modules = probe_modules(/*load=*/true);
  ASSERT_EQ(modules.size(), 2u);
  EXPECT_EQ(modules[1].name, "cuda");
  EXPECT_TRUE(modules[1].built);
  EXPECT_FALSE(modules[1].usable);
  EXPECT_THAT(modules[0].detail, HasSubstr("not part of this build"));
}

TEST_F(Modules, AutoTakesTheCpuWhenNothingElseCanBeUsed) {
  const auto backend = open_backend({.name = "auto", .threads = 1});
  EXPECT_EQ(backend->name(), "cpu");
}

TEST(Cpu, KeepsTheContract) {
  const auto cpu = open_backend({.name = "cpu", .threads = 1});
  EXPECT_EQ(cpu->count(), 1);
  EXPECT_TRUE(cpu->device().is_cpu());
  EXPECT_FALSE(cpu->has_streams());
  EXPECT_THROW(cpu->select(1), Error);
  EXPECT_EQ(cpu->health_check(), std::nullopt);
  EXPECT_GT(cpu->peak_flops(at::kFloat).per_second, 1e8);
  const MemoryStats memory = cpu->memory();
  EXPECT_GT(memory.allocated, 0);
  EXPECT_GE(memory.reserved_peak, memory.reserved);
  EXPECT_GT(memory.capacity, memory.reserved_peak);
  EXPECT_EQ(current_stream(cpu->device()), new_stream(cpu->device()));
}

TEST(Cpu, TheSameSeedGivesTheSameNumbers) {
  const auto cpu = open_backend({.name = "cpu", .threads = 1});
  cpu->seed(7);
  const at::Tensor first = at::randn({16});
  const at::Tensor second = at::randn({16});
  cpu->seed(7);
  EXPECT_TRUE(at::equal(first, at::randn({16})));
  EXPECT_FALSE(at::equal(first, second));
}

}  // namespace
}  // namespace titan::device
