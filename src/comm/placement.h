// Which part of a named tensor a rank holds. A part is a box: a range of indices in each dimension.
// Tensor parallelism and FSDP both cut contiguous ranges, evenly where the sizes divide and else
// with parts that differ by one unit, so no padding ever shows in a shape.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

namespace titan::comm {

struct Range {
  int64_t begin = 0, count = 0;
  int64_t end() const { return begin + count; }
  bool operator==(const Range&) const = default;
};

// Part `index` of [0, size) cut into `parts`; parts differ by at most one and the longer come
// first.
Range balanced_part(int64_t size, int64_t parts, int64_t index);
// Part `index` where every part but the last ones has ceil(size / parts): what FSDP cuts, because
// all-gather wants parts of one size. Trailing parts may be shorter or empty.
Range chunk(int64_t size, int64_t parts, int64_t index);
// What is in both; count 0 when nothing is.
Range intersection(const Range& a, const Range& b);

struct Box {
  std::vector<int64_t> begin, shape;

  static Box whole(const std::vector<int64_t>& shape);
  int64_t numel() const;
  // The same with dimension `dim` cut to `range`, which counts from this box's begin.
  Box cut(int64_t dim, const Range& range) const;
  // The part of `tensor`, which has the shape that this box lies in.
  at::Tensor of(const at::Tensor& tensor) const;
  bool operator==(const Box&) const = default;
};

// The part of a named tensor that one rank holds.
struct Placement {
  std::string name;
  std::vector<int64_t> shape;  // of the whole tensor
  Box part;
  // Of `part` (counted from its begin), what this rank answers for: replicas of a value are owned
  // once over pp, dp_shard, cp and tp, so that norms and checkpoints count it once.
  Box owned;

  // `owned`, counted from the whole tensor's begin.
  Box owned_of_whole() const;
  bool is_whole() const { return part.shape == shape && owned.shape == shape; }
};

}  // namespace titan::comm
