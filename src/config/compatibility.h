// What titan does with each key: the one table behind `titan config check`, the warnings of a run,
// and docs/compatibility.md. A test holds it against the schema: every key has exactly one row.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/job_config.h"

namespace titan::config {

enum class Support {
  kYes,       // does what it says
  kPartly,    // does what it says, but for values that `when` finds: those are refused
  kNoEffect,  // accepted; `note` says why it changes nothing. With `when`: a run warns where it is
              // true
  kNotBuilt,  // refused where `when` is true, until the feature exists
};

struct Row {
  const char* key;
  Support support;
  const char* note = "";  // why, or what to use instead
  const char* note_zh = "";
  // True for configurations whose value of this key needs something titan does not have (kPartly,
  // kNotBuilt), or that expect an effect (kNoEffect).
  bool (*when)(const JobConfig&) = nullptr;
  const char* example =
      "";  // a value of the key, as on the command line, for which `when` is true: tests use it
};

std::span<const Row> compatibility();
const Row* find_row(std::string_view key);

struct Finding {
  std::string key;
  std::string text;  // "parallelism.tensor_parallel_degree = 8: only one device is built"
};

// Values of `config` that need features that do not exist yet; empty means `titan train` can run
// it.
std::vector<Finding> not_built(const JobConfig& config);
// Values of `config` that are accepted, but do not do what they say.
std::vector<Finding> without_effect(const JobConfig& config);

// Model families of TorchTitan by what titan can do with them.
std::span<const char* const> known_families();
bool is_built_family(std::string_view name);
// False for flavors that need attention or layers that titan lacks (mixture of experts, flex and
// varlen attention).
bool is_built_flavor(std::string_view family, std::string_view flavor);

}  // namespace titan::config
