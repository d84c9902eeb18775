#include "nn/sequence_parts.h"

#include "base/error.h"

namespace titan::nn {

using at::Tensor;

std::vector<TokenRange> sequence_ranges(int64_t seq_len, int64_t size, int64_t rank,
                                        bool head_tail) {
  const int64_t parts = head_tail ? 2 * size : size;
  TITAN_CHECK(seq_len % parts == 0, "{} tokens in {} parts", seq_len, parts);
  const int64_t count = seq_len / parts;
  if (!head_tail) return {{rank * count, count}};
  return {{rank * count, count}, {(parts - 1 - rank) * count, count}};
}

Tensor context_positions(int64_t seq_len, int64_t size, int64_t rank, bool head_tail,
                         at::Device device) {
  const auto options = at::TensorOptions(device).dtype(at::kLong);
  return shard_sequence(at::arange(seq_len, options), 0, size, rank, head_tail);
}

Tensor shard_sequence(const Tensor& x, int64_t dim, int64_t size, int64_t rank, bool head_tail) {
  std::vector<Tensor> pieces;
  for (const auto& range : sequence_ranges(x.size(dim), size, rank, head_tail)) {
    pieces.push_back(x.narrow(dim, range.begin, range.count));
  }
  return pieces.size() == 1 ? pieces[0] : at::cat(pieces, dim);
}

Tensor join_sequence(std::span<const Tensor> parts, int64_t dim, bool head_tail) {
  if (parts.size() == 1) return parts[0];
  std::vector<Tensor> ordered;
  const int64_t count = head_tail ? parts[0].size(dim) / 2 : parts[0].size(dim);
  for (const auto& part : parts) ordered.push_back(part.narrow(dim, 0, count));
  if (head_tail) {
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      ordered.push_back(part->narrow(dim, count, count));
    }
  }
  return at::cat(ordered, dim);
}

Tensor document_positions(const Tensor& documents) {
  const int64_t seq_len = documents.size(1);
  const Tensor index = at::arange(seq_len, documents.options().dtype(at::kLong));
  const Tensor starts = documents.narrow(1, 1, seq_len - 1).ne(documents.narrow(1, 0, seq_len - 1));
  const Tensor begin = at::constant_pad_nd(index.narrow(0, 1, seq_len - 1) * starts, {1, 0}, 0);
  return index - std::get<0>(begin.cummax(1));
}

Tensor document_mask(const Tensor& documents) {
  return documents.unsqueeze(2).eq(documents.unsqueeze(1)).tril().unsqueeze(1);
}

}  // namespace titan::nn
