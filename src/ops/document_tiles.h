// Packed documents as rectangles of scores: in a sample the queries of a document meet its own keys
// and no others, so a part's attention is that of its rectangles, without a mask and without the
// work on scores that nobody sees.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/partial_attention.h"

namespace titan::ops {

// A document of one sample that has queries and keys in the part.
struct DocumentTile {
  int64_t sample = 0;
  int64_t first_query = 0, num_queries = 0;
  int64_t first_key = 0, num_keys = 0;
};

// All of a part, for masked visibilities; nullopt where the ids do not ascend, where a causal
// part's queries and keys are of different documents, or where reading the ids would wait for a
// device.
std::optional<std::vector<DocumentTile>> document_tiles(const Visibility& visibility);

// As partial_attention() and partial_attention_backward(), by libtorch's flash kernel for CPUs.
PartialAttention tiled_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 bool causal, const std::vector<DocumentTile>& tiles);
AttentionGradients tiled_attention_backward(const at::Tensor& grad, const at::Tensor& q,
                                            const at::Tensor& k, const at::Tensor& v,
                                            const at::Tensor& out, const at::Tensor& logsumexp,
                                            bool causal, const std::vector<DocumentTile>& tiles);

}  // namespace titan::ops
