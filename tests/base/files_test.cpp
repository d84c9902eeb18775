#include "base/files.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace titan::files {
namespace {
namespace fs = std::filesystem;

TEST(Files, WriteReplacesAndLeavesNoPart) {
  const fs::path folder = fs::path(testing::TempDir()) / "titan_files_test";
  fs::create_directories(folder);
  const fs::path path = folder / "a.txt";
  write_atomically(path, "one");
  write_atomically(path, "two");
  EXPECT_EQ(read(path), "two");
  EXPECT_EQ(Map(path).bytes(), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  fs::remove_all(folder);
}

TEST(Files, MissingFileIsNamed) {
  try {
    read("/no/such/file");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/no/such/file"), std::string::npos);
    EXPECT_EQ(error.code(), ExitCode::kUsage);
  }
}

}  // namespace
}  // namespace titan::files
