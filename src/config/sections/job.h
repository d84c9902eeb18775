// [job]: what this run is called and where its files go.
#pragma once

#include <optional>
#include <string>

#include "config/field.h"

namespace titan::config {

struct Job {
  std::optional<std::string> config_file;
  std::string dump_folder = "./outputs";
  std::string description = "default job";
  bool print_config = false;
  std::optional<std::string> save_config_file;
  std::string custom_config_module = "";

  static constexpr void describe(auto&& field) {
    field("config_file", &Job::config_file,
          "the TOML or YAML file that was read (command line only)");
    field("dump_folder", &Job::dump_folder, "root folder of everything the run writes");
    field("description", &Job::description, "free text, shown in the first line of the log");
    field("print_config", &Job::print_config, "log the merged config as JSON at start");
    field("save_config_file", &Job::save_config_file,
          "write the merged config as JSON to this file below dump_folder");
    field("custom_config_module", &Job::custom_config_module,
          "Python module that adds keys in TorchTitan; only the known ones are accepted");
  }
};
static_assert(complete<Job>(), "describe() of Job misses a member");

}  // namespace titan::config
