#include "device/profiler.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"

namespace titan::device {
namespace {

namespace fs = std::filesystem;

// How many events of this name a trace holds.
int64_t count(const fs::path& file, const std::string& name) {
  const auto trace = nlohmann::json::parse(files::read(file));
  int64_t found = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.value("name", "") == name) ++found;
  }
  return found;
}

TEST(Profiler, WritesOperatorsScopesAndBackwardOfTheTracedPart) {
  const fs::path folder = fs::path(testing::TempDir()) / "titan_profiler_test";
  fs::remove_all(folder);
  const fs::path file = folder / "deep" / "trace.json";
  Profiler profiler(c10::DeviceType::CPU);
  at::Tensor x = at::ones({3, 3}).requires_grad_();
  at::sin(x);  // before the trace: must not be in it
  profiler.warm_up();
  at::cos(x);
  profiler.start();
  {
    RECORD_USER_SCOPE("my scope");
    at::mm(x, x).sum().backward();
  }
  profiler.stop_and_write(file);
  at::tan(x);
  EXPECT_EQ(count(file, "my scope"), 1);
  EXPECT_GE(count(file, "aten::mm"), 3);  // forward and two gradients
  EXPECT_EQ(count(file, "aten::sin") + count(file, "aten::cos") + count(file, "aten::tan"), 0);
  EXPECT_FALSE(fs::exists(folder / "deep" / "trace.json.part"));

  // A second trace of the same process starts empty.
  profiler.start();
  at::tan(x);
  profiler.stop_and_write(folder / "second.json");
  EXPECT_EQ(count(folder / "second.json", "aten::tan"), 1);
  EXPECT_EQ(count(folder / "second.json", "aten::mm"), 0);
  fs::remove_all(folder);
}

TEST(Profiler, NamesAFolderThatCannotBeMade) {
  const fs::path blocker = fs::path(testing::TempDir()) / "titan_profiler_blocker";
  files::write_atomically(blocker, "a file");
  Profiler profiler(c10::DeviceType::CPU);
  profiler.start();
  EXPECT_THROW(profiler.stop_and_write(blocker / "trace.json"), EnvironmentError);
  EXPECT_FALSE(profiler.running());
  fs::remove(blocker);
}

}  // namespace
}  // namespace titan::device
