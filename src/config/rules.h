// Rules between keys, as far as the config alone can decide them: divisibility, settings that need
// each other. What a single value must satisfy is its Check (field.h).
#pragma once

#include <string>
#include <vector>

#include "config/job_config.h"

namespace titan::config {

struct Problem {
  std::string key;   // where to point the user
  std::string text;  // what is wrong, with the numbers and the nearest legal value
};

// Rules that are broken; empty for a legal configuration.
std::vector<Problem> broken_rules(const JobConfig& config);

// Settings that are legal but surely not meant, such as a warm-up longer than the run.
std::vector<Problem> doubtful_settings(const JobConfig& config);

}  // namespace titan::config
