// Where the processes of a run meet: a TCP store on rank 0's host (or torchrun's own), through
// which every process group is made. Checks that all ranks came, none twice, and that they agree on
// their number and on whatever else the caller says must be alike.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/world.h"
#include "comm/mesh.h"
#include "device/backend.h"

namespace titan::comm {

// What all ranks must have alike, because the shapes of their messages follow from it: value by
// name.
using Facts = std::map<std::string, std::string>;

class Rendezvous {
 public:
  // Collective. Throws EnvironmentError naming address, rank and what to do when the port is taken,
  // nobody answers, or ranks are missing, doubled or of another opinion within `timeout_s`.
  Rendezvous(const World& world, double timeout_s, const Facts& facts = {});
  ~Rendezvous();

  // Makers of groups for `context`'s rank: of the host (Gloo), and of the device.
  GroupMaker host(std::shared_ptr<RankContext> context) const;
  GroupMaker device(device::Backend& backend, std::shared_ptr<RankContext> context) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace titan::comm
