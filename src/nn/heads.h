// How attention heads are shared among tensor-parallel ranks. Every rank takes a contiguous,
// balanced range of query heads and the key/value heads that those read; where two ranks read the
// same key/value head, both hold a copy and its gradient is summed.
#pragma once

#include <ATen/ATen.h>

#include "comm/group.h"
#include "comm/placement.h"

namespace titan::nn {

struct HeadShare {
  comm::Range query, key_value;  // global heads of this rank
  comm::Range owned_key_value;   // of key_value (counted from 0), those no lower rank holds
  bool copies = false;           // any rank holds a head that another one holds too
};

// REQUIRES: num_kv_heads divides num_heads, ranks <= num_heads.
HeadShare share_heads(int64_t num_heads, int64_t num_kv_heads, int64_t ranks, int64_t rank);

// For each local query head the local key/value head it reads; empty when the usual grouping of
// equal, consecutive runs says it.
std::vector<int64_t> key_value_of_query(int64_t num_heads, int64_t num_kv_heads,
                                        const HeadShare& share);

// The rows of a key or value projection that this rank holds, [kv * head_dim, dim]; backward sums
// the gradients of rows that other ranks hold too.
at::Tensor sum_copies(const at::Tensor& weight, int64_t num_kv_heads, const HeadShare& share,
                      const comm::Group& tp);

}  // namespace titan::nn
