// All-gather and reduce-scatter taken apart into turns of a ring, so that a caller computes with
// one rank's chunk while the next one travels (Wang et al. 2023, "Overlap communication with
// dependent computation via decomposition", section 5). A rank sends what the plain collectives
// send: size - 1 chunks. Collective; every rank takes the same number of turns.
#pragma once

#include <ATen/ATen.h>

#include <functional>

#include "comm/group.h"

namespace titan::comm {

// chunks [size, ...], contiguous, with this rank's own chunk in place: fills in the others.
// visit(r) is called once for each rank's chunk, own first, then the ranks before, and may only
// read it; the chunk of the next call is on its way meanwhile.
void ring_gather(const Group& group, at::Tensor& chunks,
                 const std::function<void(int64_t rank)>& visit);

// part(r): this rank's term, a new contiguous tensor, of the sum that rank r gets. Returns the sum
// over all ranks of their part(this rank). Sums travel on while the next part is computed; own
// comes last. `meanwhile` is called while the last turn is under way.
at::Tensor ring_reduce(const Group& group, const std::function<at::Tensor(int64_t rank)>& part,
                       const std::function<void()>& meanwhile = nullptr);

}  // namespace titan::comm
