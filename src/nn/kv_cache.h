// Keys and values of the tokens a generation has already seen, per layer.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace titan::nn {

struct KvCache {
  std::vector<at::Tensor> k, v;  // per layer [B, kv heads, capacity, head_dim]
  int64_t length = 0;            // tokens seen, padding included
  at::Tensor padding;            // [B] int64: rows are padded on the left by this many tokens
  bool padded = false;           // any row is

  int64_t capacity() const { return k.front().size(2); }
};

// What attention may see in one forward call of T tokens, and where it writes their keys and
// values.
struct CacheView {
  KvCache* cache = nullptr;  // null: plain causal attention over the given tokens
  int64_t layer = 0;
  at::Tensor
      mask;  // [B, 1, T, length + T] bool; undefined when causality or a single token says it all
  at::Tensor documents;  // TokenPlaces::documents; only without a cache
};

}  // namespace titan::nn
