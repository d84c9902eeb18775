// Which blocks of a model are recomputed in the backward pass, and how much of them is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/activation_checkpoint.h"
#include "ops/recompute.h"

namespace titan::parallel {

// One entry per block; nullopt: the block keeps its activations.
using RecomputePlan = std::vector<std::optional<ops::Kept>>;

// none; full: every block; selective with a number n: every n-th block (blocks n-1, 2n-1, …);
// selective "op": every block, keeping what is expensive; checkpoint_ratio r: round(r L) blocks,
// evenly spread.
RecomputePlan make_recompute_plan(const config::ActivationCheckpoint& config, int64_t num_layers);

// One line for the log: "none", "selective (every 2nd block)", ….
std::string describe(const RecomputePlan& plan);

}  // namespace titan::parallel
