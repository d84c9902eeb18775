// What of each parameter a tensor-parallel rank holds: the table behind TP, sharded checkpoints and
// initialisation.
#pragma once

#include <string>
#include <vector>

#include "comm/placement.h"
#include "models/args.h"

namespace titan::models {

// Embedding and output split the vocabulary; wq, wk, wv and w1, w3 their rows (by heads, by hidden
// units); wo and w2 their columns; norms are whole on every rank and owned by rank 0.
comm::Placement tensor_parallel_placement(const ModelArgs& args, const std::string& name,
                                          int64_t ranks, int64_t rank);

// True where every tensor-parallel rank holds the whole and sees a part of the sequence or of the
// heads: its gradient is a part of the sum.
bool is_replicated(const std::string& name);

// One sentence per rule that a tensor-parallel degree breaks.
std::vector<std::string> tensor_parallel_problems(const ModelArgs& args, int64_t ranks);

// Parameters that are gathered together: 0 the embedding, 1 + i block i, num_layers + 1 what
// follows the blocks.
int64_t group_of(const ModelArgs& args, const std::string& name);

// Where it belongs among the parameters of its group in memory; equal numbers stay in visiting
// order. Matrices that are read as one (queries, keys, values; gate and up) are neighbours.
int64_t memory_order(const std::string& name);

}  // namespace titan::models
