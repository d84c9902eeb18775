// The mesh of ranks and its named axes. Ranks are laid out with pp outermost and tp innermost, as
// TorchTitan does: rank = ((((pp * R) + dp_replicate) * S + dp_shard) * C + cp) * T + tp.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/group.h"

namespace titan::comm {

// Degrees of the axes; all at least 1.
struct MeshShape {
  int64_t pp = 1;
  int64_t dp_replicate = 1;
  int64_t dp_shard = 1;
  int64_t cp = 1;
  int64_t tp = 1;

  int64_t world() const { return pp * dp_replicate * dp_shard * cp * tp; }
  // Ranks that share one copy of the parameters of a stage.
  int64_t fsdp() const { return dp_shard * cp; }
  // Ranks that read different samples.
  int64_t data() const { return dp_replicate * dp_shard; }
  bool operator==(const MeshShape&) const = default;
};

// "pp 2 x dp_shard 2 x tp 2", axes of degree 1 left out; "1 process".
std::string describe(const MeshShape& shape);

struct Coordinates {
  int64_t pp = 0, dp_replicate = 0, dp_shard = 0, cp = 0, tp = 0;
};

Coordinates coordinates_of(const MeshShape& shape, int64_t rank);
int64_t rank_at(const MeshShape& shape, const Coordinates& at);

// Makes the group of `ranks` (world ranks, in order), of which the caller is one. `id` is unique in
// the world and equal on all members. Called by all ranks in the same order.
using GroupMaker = std::function<Group(const std::string& axis, const std::string& id,
                                       const std::vector<int64_t>& ranks)>;

// Which of the shape.data() readers of samples a rank is; its cp, tp and pp ranks read the same.
int64_t data_rank(const MeshShape& shape, int64_t rank);

struct Mesh {
  MeshShape shape;
  Coordinates at;
  int64_t rank = 0;
  std::shared_ptr<RankContext> context = std::make_shared<RankContext>();

  Group world;  // of the host: small CPU tensors, checkpoints, agreement
  // Of the device. Groups over an axis of degree 1 are of one rank.
  Group pp, pp_back;  // for messages to higher and to lower ranks of the pipeline
  Group dp_replicate, fsdp /* dp_shard x cp */, cp, tp;
  Group all;   // of the device
  Group ends;  // first and last pipeline rank, for weights that both hold; else one rank

  // Whether parameters are held in groups that are gathered and reduced.
  bool is_sharded() const { return shape.world() > 1 || !fsdp.is_identity(); }
  void set_timeout(double seconds) const;
  // The rank whose value counts where cp, tp and pp ranks know the same.
  bool is_data_leader() const { return at.cp == 0 && at.tp == 0 && at.pp == 0; }
};

// Makes the groups of rank `rank`. `host` makes the world's host group, `device` all others.
// With real_fsdp the fsdp group communicates even when it is of one rank.
// REQUIRES: shape.world() is the number of ranks. Collective.
Mesh make_mesh(const MeshShape& shape, int64_t rank, const GroupMaker& host,
               const GroupMaker& device, std::shared_ptr<RankContext> context,
               bool real_fsdp = false);

}  // namespace titan::comm
