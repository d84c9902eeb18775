#include "comm/mesh.h"

#include <numeric>

#include "base/error.h"

namespace titan::comm {
namespace {

enum Axis : unsigned { kPp = 1, kReplicate = 2, kShard = 4, kCp = 8, kTp = 16 };

// World ranks that differ from `at` in the axes of `mask` only, in rank order.
std::vector<int64_t> ranks_along(const MeshShape& shape, const Coordinates& at, unsigned mask) {
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < shape.world(); ++rank) {
    const Coordinates other = coordinates_of(shape, rank);
    const bool member = ((mask & kPp) || other.pp == at.pp) &&
                        ((mask & kReplicate) || other.dp_replicate == at.dp_replicate) &&
                        ((mask & kShard) || other.dp_shard == at.dp_shard) &&
                        ((mask & kCp) || other.cp == at.cp) && ((mask & kTp) || other.tp == at.tp);
    if (member) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

std::string describe(const MeshShape& shape) {
  std::string text;
  const auto add = [&](const char* axis, int64_t degree) {
    if (degree > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", axis, degree);
  };
  add("pp", shape.pp);
  add("dp_replicate", shape.dp_replicate);
  add("dp_shard", shape.dp_shard);
  add("cp", shape.cp);
  add("tp", shape.tp);
  return text.empty() ? "1 process" : text;
}

Coordinates coordinates_of(const MeshShape& shape, int64_t rank) {
  Coordinates at;
  at.tp = rank % shape.tp;
  rank /= shape.tp;
  at.cp = rank % shape.cp;
  rank /= shape.cp;
  at.dp_shard = rank % shape.dp_shard;
  rank /= shape.dp_shard;
  at.dp_replicate = rank % shape.dp_replicate;
  at.pp = rank / shape.dp_replicate;
  return at;
}

int64_t rank_at(const MeshShape& shape, const Coordinates& at) {
  return (((at.pp * shape.dp_replicate + at.dp_replicate) * shape.dp_shard + at.dp_shard) *
              shape.cp +
          at.cp) *
             shape.tp +
         at.tp;
}

void Mesh::set_timeout(double seconds) const {
  for (const Group* group : {&world, &pp, &pp_back, &dp_replicate, &fsdp, &cp, &tp, &all, &ends}) {
    group->set_timeout(seconds);
  }
}

int64_t data_rank(const MeshShape& shape, int64_t rank) {
  const Coordinates at = coordinates_of(shape, rank);
  return at.dp_replicate * shape.dp_shard + at.dp_shard;
}

Mesh make_mesh(const MeshShape& shape, int64_t rank, const GroupMaker& host,
               const GroupMaker& device, std::shared_ptr<RankContext> context, bool real_fsdp) {
  Mesh mesh{.shape = shape, .at = coordinates_of(shape, rank), .rank = rank, .context = context};
  context->rank = rank;
  const auto along = [&](const GroupMaker& maker, const std::string& axis, unsigned mask) {
    const auto ranks = ranks_along(shape, mesh.at, mask);
    if (ranks.size() == 1) return Group();
    return maker(axis, fmt::format("{}/{}", axis, ranks.front()), ranks);
  };
  mesh.world = along(host, "world", ~0u);
  mesh.pp = along(device, "pp", kPp);
  mesh.pp_back = along(device, "pp_back", kPp);
  mesh.dp_replicate = along(device, "dp_replicate", kReplicate);
  mesh.fsdp = along(device, "fsdp", kShard | kCp);
  if (real_fsdp && mesh.fsdp.is_identity()) mesh.fsdp = device("fsdp", "fsdp/one", {rank});
  mesh.cp = along(device, "cp", kCp);
  mesh.tp = along(device, "tp", kTp);
  mesh.all = along(device, "all", ~0u);
  const auto stages = ranks_along(shape, mesh.at, kPp);
  if (shape.pp > 1 && (rank == stages.front() || rank == stages.back())) {
    mesh.ends = device("pp_ends", fmt::format("pp_ends/{}", stages.front()),
                       {stages.front(), stages.back()});
  }
  return mesh;
}

}  // namespace titan::comm
