// The order of one rank in each published schedule. Called by make_schedule(), which has checked
// the numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/pipeline/action.h"

namespace titan::parallel::pipeline {

struct OrderOf {
  int64_t rank, num_ranks, stages_per_rank, num_microbatches;
};

// All forwards, stage by stage, then all backwards. `backwards_reversed`: last micro-batch first
// (LoopedBFS); otherwise first in, first out (GPipe).
std::vector<Action> breadth_first_order(const OrderOf& of, bool backwards_reversed);

// Micro-batches pass the rank's stages in groups: `group` of them through one stage, then through
// the next. A rank runs `warmup` = (stages_per_rank - 1) * group + `ahead` * (ranks after it)
// forwards before its first backward, then one of each in turn.
struct OneForwardOneBackward {
  int64_t group;
  int64_t ahead;
  bool split_backward;  // weight gradients lag behind by the rank's number (ZB-H1)
};
std::vector<Action> one_forward_one_backward_order(const OrderOf& of,
                                                   const OneForwardOneBackward& how);

// V-shaped placement, two stages per rank.
std::vector<Action> zbv_order(const OrderOf& of);
std::vector<Action> dual_pipe_v_order(const OrderOf& of);

}  // namespace titan::parallel::pipeline
