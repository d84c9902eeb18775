// Completes compute lists with what lies between computations: sends, receives, gathering of
// parameters and reduction of gradients. Around one computation the order is
//   UNSHARD  RECV…  compute  SEND  RESHARD  REDUCE_GRAD.
// Stages on the same rank pass their tensors locally: no send, no receive.
#pragma once

#include "parallel/pipeline/schedule.h"

namespace titan::parallel::pipeline {

// When a stage's sharded parameters are gathered as a whole.
enum class GatherPolicy {
  kNever,      // nothing is sharded, or the layers gather by themselves
  kWholeStep,  // before the stage's first use until after its last
  // Around each forward and backward, except where uses follow each other without a receive. A
  // weight gradient alone (W) uses no parameters.
  kAroundUse,
};

// The receive on the other rank that takes what `send` sends.
Action receive_of(const Action& send);

// A receive stands just before the computation that needs it. If the sending rank sent something
// else to this rank earlier, that is received first, so on every pair of ranks messages are
// received in the order they are sent (a channel without tags needs that; it never waits longer).
// Sends stand right after the computation and must not block: a rank goes on while its message is
// not yet received. REDUCE_GRAD follows the last weight gradient of its stage.
// REQUIRES require_complete(compute). Whether the ranks can ever wait for each other for ever is
// for simulate() to say.
Schedule lower(const Schedule& compute, GatherPolicy policy);

}  // namespace titan::parallel::pipeline
