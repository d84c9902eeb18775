// Where the processes of a run meet: a TCP store on rank 0's host (or torchrun's own), through
// which every process group is made. Checks that all ranks came, none twice, and that they agree on
// their number.
#pragma once

#include <memory>

#include "base/world.h"
#include "comm/mesh.h"
#include "device/backend.h"

namespace titan::comm {

class Rendezvous {
 public:
  // Collective. Throws EnvironmentError naming address, rank and what to do when the port is taken,
  // nobody answers, or ranks are missing, doubled or of another opinion within `timeout_s`.
  Rendezvous(const World& world, double timeout_s);
  ~Rendezvous();

  // Makers of groups for `context`'s rank: of the host (Gloo), and of the device.
  GroupMaker host(std::shared_ptr<RankContext> context) const;
  GroupMaker device(device::Backend& backend, std::shared_ptr<RankContext> context) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace titan::comm
