// A group of ranks that take part in collectives together: the ranks along one axis of the mesh.
// Every member must call the same collectives in the same order with the same shapes; on Gloo,
// other shapes are an error with a name (shape_check.h). The default
// group of one rank is the identity and calls nothing, so callers need no `if`.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/recorder.h"
#include "comm/traffic.h"

namespace c10d {
class Backend;
class Work;
}  // namespace c10d

namespace titan::comm {

enum class Reduce { kSum, kMax };

// Where a rank is in its run: what the message about a failed collective says. Written by the
// trainer, read by any thread.
struct Progress {
  std::atomic<int64_t> step{0};
  std::atomic<const char*> phase{"start"};  // a literal: "forward", "backward", …
};

// What all groups of a rank share.
struct RankContext {
  int64_t rank = 0;  // in the world
  Traffic traffic;
  Progress progress;
  Recorder recorder;
};

// A collective under way. The tensors must stay untouched until wait(), which they live to see.
class Pending {
 public:
  struct State;
  Pending();  // nothing to wait for
  explicit Pending(std::unique_ptr<State> state);
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  ~Pending();

  bool active() const { return state_ != nullptr; }
  // Whether it has ended, without waiting; true when there is nothing to wait for.
  bool is_done() const;
  // Until the result may be used: on an accelerator the current stream waits, on a CPU the caller.
  // Throws EnvironmentError naming rank, step, phase, collective and axis.
  void wait();

 private:
  std::unique_ptr<State> state_;
};

class Group {
 public:
  Group() = default;  // one rank
  Group(std::string axis, c10::intrusive_ptr<c10d::Backend> backend,
        std::shared_ptr<RankContext> context);

  // True for a group that calls nothing; a group made with a backend calls it, even for one rank.
  bool is_identity() const { return state_ == nullptr; }
  int64_t size() const { return size_; }
  int64_t rank() const { return rank_; }  // in this group
  const std::string& axis() const { return axis_; }

  // New tensors; any strides. Not differentiable: see comm/collectives.h.
  at::Tensor all_reduce(const at::Tensor& x, Reduce reduce = Reduce::kSum) const;
  // Blocks of all ranks behind each other along `dim`; shapes are equal on all ranks.
  at::Tensor all_gather(const at::Tensor& x, int64_t dim) const;
  // The sum's block of this rank along `dim`, which size() divides.
  at::Tensor reduce_scatter(const at::Tensor& x, int64_t dim) const;
  // Block i of `split_dim` goes to rank i, which puts the blocks it gets behind each other along
  // `concat_dim`. size() divides x.size(split_dim).
  at::Tensor all_to_all(const at::Tensor& x, int64_t split_dim, int64_t concat_dim) const;

  // In place and without waiting, on contiguous tensors.
  Pending start_all_reduce(at::Tensor& x, Reduce reduce = Reduce::kSum) const;
  // `out` of size * n elements from `in` of n, and the other way round; shapes do not matter.
  Pending start_all_gather(at::Tensor& out, const at::Tensor& in) const;
  Pending start_reduce_scatter(at::Tensor& out, const at::Tensor& in) const;
  // Messages between two ranks with the same tag arrive in order. Shapes must agree. The first
  // receive from a rank may wait for that rank to send.
  Pending start_send(const at::Tensor& x, int64_t to, int64_t tag) const;
  Pending start_receive(at::Tensor& out, int64_t from, int64_t tag) const;
  // Both at once, where every rank of the group sends to the next one and receives from the one
  // before: one launch where the library can join messages, so that they use both directions.
  Pending start_turn(const at::Tensor& out, at::Tensor& in, int64_t tag) const;
  // `x` of rank `from` on every rank, in place, contiguous.
  void broadcast(at::Tensor& x, int64_t from) const;
  void barrier() const;
  // Of all later collectives.
  void set_timeout(double seconds) const;

 private:
  struct State;
  using Call = std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend&)>;
  // A collective of all ranks; `in` is what must be of one size on all of them.
  Pending issue(const char* collective, int64_t bytes, const at::Tensor& in,
                std::vector<at::Tensor> tensors, const Call& call) const;
  // Counts and records, then body(what, ticket of the record); what it throws names this place.
  template <typename Body>
  Pending guarded(const char* collective, int64_t bytes, const Body& body) const;

  std::shared_ptr<const State> state_;  // null: one rank
  std::string axis_ = "self";
  int64_t size_ = 1;
  int64_t rank_ = 0;
};

// The texts of all ranks of a host group, by rank.
std::vector<std::string> gather_text(const std::string& mine, const Group& group);

}  // namespace titan::comm
