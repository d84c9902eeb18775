// Groups of ranks of which only this one exists: every collective returns at once with numbers of
// the right shape, as if all others held what this rank holds (a message from another rank is
// zeros). For trying a layout of many ranks on one device: memory, shapes, one rank's time without
// its communication. What is computed means nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/mesh.h"

namespace titan::comm {

// Makes groups for rank `rank`. Works for tensors of every device.
GroupMaker fake_world(int64_t rank, std::shared_ptr<RankContext> context);

}  // namespace titan::comm
