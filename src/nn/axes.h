// The axes of the mesh that the maths itself is split over. Of one rank each on a single device,
// where every function that takes them communicates nothing.
#pragma once

#include "comm/group.h"

namespace titan::nn {

struct Axes {
  comm::Group tp;  // matrices; between blocks also the sequence (sequence parallelism)
  comm::Group cp;  // the sequence, everywhere
};

}  // namespace titan::nn
