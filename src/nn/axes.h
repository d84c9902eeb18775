// The axes of the mesh that the maths itself is split over. Of one rank each on a single device,
// where every function that takes them communicates nothing.
#pragma once

#include "comm/group.h"
#include "nn/context_attention.h"

namespace titan::nn {

struct Axes {
  comm::Group tp;           // matrices; between blocks also the sequence (sequence parallelism)
  ContextParallel context;  // the sequence, everywhere
  // Messages of tp travel while the products before and after them are computed.
  bool overlap_tp = false;
};

}  // namespace titan::nn
