// A folder that lives as long as a test.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace titan::observe {

class TempFolder {
 public:
  TempFolder() {
    std::string name = testing::TempDir() + "observe_XXXXXX";
    const char* made = ::mkdtemp(name.data());
    EXPECT_NE(made, nullptr);
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace titan::observe
