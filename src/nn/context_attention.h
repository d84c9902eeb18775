// Attention of a sequence that is spread over the ranks of a group (context parallelism): every
// rank holds some tokens of every sample and the same heads.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <vector>

#include "comm/group.h"
#include "nn/sequence_parts.h"

namespace titan::nn {

enum class ContextMethod {
  kAllGather,  // every rank gathers all keys and values (Llama 3, arXiv 2407.21783, section 3.3.2)
  kRing,       // keys and values travel round (Liu et al. 2023, arXiv 2310.01889)
  kUlysses,    // whole sequences of some heads (Jacobs et al. 2023, arXiv 2309.14509)
};

struct ContextParallel {
  comm::Group group;
  ContextMethod method = ContextMethod::kAllGather;
  bool head_tail = true;
};

// What keeps a model from running so, as sentences with the numbers and the nearest legal ones;
// empty: nothing. Heads are those of one rank, after tensor parallelism.
std::vector<std::string> context_problems(ContextMethod method, bool head_tail, int64_t size,
                                          int64_t seq_len, int64_t num_heads);

// q [B, H, t, D], k and v [B, K, t, D] of this rank's tokens (shard_sequence), H a multiple of K
// -> [B, H, t, D]. Causal over the positions in the whole sequence. documents [B, t * size] int64,
// of the whole sequence: a token sees only tokens with its own id. Collective, in the forward and
// the backward pass. Throws Error when context_problems() finds any.
at::Tensor context_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const ContextParallel& context,
                             const std::optional<at::Tensor>& documents = std::nullopt);

}  // namespace titan::nn
