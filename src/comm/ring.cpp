#include "comm/ring.h"

#include "base/error.h"

namespace titan::comm {
namespace {

using at::Tensor;

constexpr int64_t kGatherTag = 3, kReduceTag = 4;

// The rank `steps` places before this one.
int64_t rank_before(const Group& group, int64_t steps) {
  return (group.rank() + 2 * group.size() - steps) % group.size();
}

}  // namespace

void ring_gather(const Group& group, Tensor& chunks,
                 const std::function<void(int64_t rank)>& visit) {
  TITAN_CHECK(chunks.size(0) == group.size() && chunks.is_contiguous(),
              "{} chunks for a ring of {} ranks", chunks.size(0), group.size());
  for (int64_t step = 0; step < group.size(); ++step) {
    Pending turn;
    if (step + 1 < group.size()) {
      Tensor next = chunks[rank_before(group, step + 1)];
      turn = group.start_turn(chunks[rank_before(group, step)], next, kGatherTag);
    }
    visit(rank_before(group, step));
    turn.wait();
  }
}

Tensor ring_reduce(const Group& group, const std::function<Tensor(int64_t rank)>& part,
                   const std::function<void()>& meanwhile) {
  Tensor sum, incoming;
  Pending turn;
  for (int64_t step = 0; step < group.size(); ++step) {
    sum = part(rank_before(group, step + 1));
    const bool last = step + 1 == group.size();
    if (last && meanwhile) meanwhile();
    turn.wait();
    if (step > 0) sum.add_(incoming);
    if (last) break;
    incoming = at::empty_like(sum);
    turn = group.start_turn(sum, incoming, kReduceTag);
  }
  return sum;
}

}  // namespace titan::comm
