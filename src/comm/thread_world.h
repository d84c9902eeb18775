// Ranks as threads of one process over an in-memory c10d backend: whole layouts run in a fraction
// of a second, in tests and in `titan selfcheck`. CPU tensors only. A rank that throws frees all
// others with the same message.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/mesh.h"

namespace c10d {
class Backend;
}

namespace titan::comm {

// Stands between a group of one rank and its backend: whoever checks a layout watches or breaks its
// collectives with it. Called for every group that a rank makes.
using BackendDecorator = std::function<c10::intrusive_ptr<c10d::Backend>(
    c10::intrusive_ptr<c10d::Backend> backend, const std::string& axis,
    const std::shared_ptr<const RankContext>& context)>;

class ThreadWorld {
 public:
  explicit ThreadWorld(int64_t size, BackendDecorator decorate = nullptr);
  ~ThreadWorld();

  // Makes groups for rank `rank`; usable from that rank's thread.
  GroupMaker maker(int64_t rank, std::shared_ptr<RankContext> context) const;

  // Runs body(rank) on `size` threads and waits for all; rethrows the first failure.
  void run(const std::function<void(int64_t rank)>& body) const;

 private:
  struct Hubs;
  int64_t size_;
  BackendDecorator decorate_;
  std::shared_ptr<Hubs> hubs_;
};

}  // namespace titan::comm
