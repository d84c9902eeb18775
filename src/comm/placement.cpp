#include "comm/placement.h"

#include <algorithm>

#include "base/error.h"

namespace titan::comm {

Range balanced_part(int64_t size, int64_t parts, int64_t index) {
  const int64_t count = size / parts, longer = size % parts;
  return {index * count + std::min(index, longer), count + (index < longer ? 1 : 0)};
}

Range chunk(int64_t size, int64_t parts, int64_t index) {
  const int64_t count = (size + parts - 1) / parts;
  const int64_t begin = std::min(size, index * count);
  return {begin, std::min(count, size - begin)};
}

Range intersection(const Range& a, const Range& b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max<int64_t>(0, std::min(a.end(), b.end()) - begin)};
}

Box Box::whole(const std::vector<int64_t>& shape) {
  return {std::vector<int64_t>(shape.size(), 0), shape};
}

int64_t Box::numel() const {
  int64_t numel = 1;
  for (const int64_t size : shape) numel *= size;
  return numel;
}

Box Box::cut(int64_t dim, const Range& range) const {
  const auto d = static_cast<size_t>(dim);
  TITAN_CHECK(d < shape.size() && range.begin >= 0 && range.end() <= shape[d],
              "cut [{}, {}) of dimension {}", range.begin, range.end(), dim);
  Box result = *this;
  result.begin[d] += range.begin;
  result.shape[d] = range.count;
  return result;
}

at::Tensor Box::of(const at::Tensor& tensor) const {
  at::Tensor part = tensor;
  for (size_t d = 0; d < shape.size(); ++d) {
    part = part.narrow(static_cast<int64_t>(d), begin[d], shape[d]);
  }
  return part;
}

Box Placement::owned_of_whole() const {
  Box box = owned;
  for (size_t d = 0; d < box.begin.size(); ++d) box.begin[d] += part.begin[d];
  return box;
}

}  // namespace titan::comm
