// The tables of sizes of the dense families, from the published models.
#pragma once

#include <cstdint>
#include <vector>

#include "models/args.h"

namespace titan::models {

std::vector<ModelArgs> llama2_table();
std::vector<ModelArgs> llama3_table();
std::vector<ModelArgs> qwen3_table();

// Llama's width of the feed-forward part: 8/3 dim, times `multiplier`, rounded up to a multiple of
// `multiple_of`.
int64_t llama_hidden_dim(int64_t dim, double multiplier, int64_t multiple_of);

}  // namespace titan::models
