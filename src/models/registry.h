// The model families titan trains, their tables of sizes, and how a config's [model] section picks
// from them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/sections/model.h"
#include "models/args.h"

namespace titan::models {

struct Family {
  const char* name;
  std::vector<ModelArgs> (*table)();  // one entry per flavor
};

std::vector<Family> families();

// The sizes that [model] asks for, checked: every rule of divisibility, with the numbers.
// max_seq_len is seq_len. Throws Error for an unknown family or flavor (with the nearest) and for
// sizes that do not fit together.
ModelArgs resolve(const config::Model& model, int64_t seq_len);

// One sentence per broken rule; empty when the sizes fit together.
std::vector<std::string> problems(const ModelArgs& args);

}  // namespace titan::models
