// A temporary folder with config files, and short forms of load() for tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/load.h"

namespace titan::config {

class ConfigFiles : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              fmt::format("titan_config_{}_{}_{}", getpid(), info->test_suite_name(), info->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) const {
    const auto path = folder_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }

  using Words = std::vector<std::string>;

  // load() of a TOML text and further words.
  Loaded load_toml(const std::string& content, Words words = {}) const {
    words.insert(words.begin(), write("a.toml", content));
    return load(words);
  }
  Loaded load_yaml(const std::string& content, Words words = {}) const {
    words.insert(words.begin(), write("a.yaml", content));
    return load(words);
  }

  // The message load() refuses these words with; "" when it does not.
  static std::string refusal(const Words& words) {
    try {
      load(words);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
      return error.what();
    }
    return "";
  }
  std::string toml_refusal(const std::string& content, Words words = {}) const {
    words.insert(words.begin(), write("a.toml", content));
    return refusal(words);
  }
  std::string yaml_refusal(const std::string& content) const {
    return refusal({write("a.yaml", content)});
  }

  std::filesystem::path folder_;
};

}  // namespace titan::config
