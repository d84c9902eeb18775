// Collectives inside the maths, with their gradients. Sequence parallelism (Korthikanti et al.
// 2022, arXiv 2205.05198, section 4.2.2) pairs them: what is gathered in the forward pass is
// reduce-scattered in the backward pass and the other way round. On a group of one rank all are the
// identity. Every rank of the group must call them, in the forward and in the backward pass.
#pragma once

#include <ATen/ATen.h>

#include "comm/group.h"

namespace torch::autograd {
struct AutogradContext;
}

namespace titan::comm {

// Blocks along `dim` of all ranks behind each other; the consumers' work is split over the ranks,
// so their gradients are partial sums: backward is a reduce-scatter.
at::Tensor gather(const at::Tensor& x, const Group& group, int64_t dim);
// Partial sums -> this rank's block of the sum along `dim`; backward is an all-gather.
at::Tensor reduce_scatter(const at::Tensor& x, const Group& group, int64_t dim);
// Partial sums -> the sum on every rank; the consumers are replicated: backward is the identity.
at::Tensor reduce(const at::Tensor& x, const Group& group);
// A replicated tensor whose consumers' work is split over the ranks: backward sums the gradients.
at::Tensor replicate(const at::Tensor& x, const Group& group);
// See Group::all_to_all; backward is the opposite exchange.
at::Tensor all_to_all(const at::Tensor& x, const Group& group, int64_t split_dim,
                      int64_t concat_dim);

// For autograd functions elsewhere: the group of a forward pass, for its backward pass.
void keep_group(torch::autograd::AutogradContext* ctx, const Group& group);
Group kept_group(torch::autograd::AutogradContext* ctx);

}  // namespace titan::comm
