#include "ops/document_tiles.h"

#include "ops/partial_attention_kernels.h"

namespace titan::ops {
namespace {

using at::Tensor;

// Neighbours of one id.
struct DocumentRun {
  int64_t id = 0, first = 0, count = 0;
};

// Empty when the ids descend somewhere.
std::vector<DocumentRun> ascending_runs(const int64_t* ids, int64_t count) {
  std::vector<DocumentRun> runs;
  for (int64_t i = 0; i < count; ++i) {
    if (!runs.empty() && ids[i] < runs.back().id) return {};
    if (runs.empty() || ids[i] != runs.back().id) runs.push_back({ids[i], i, 0});
    ++runs.back().count;
  }
  return runs;
}

// Tiles of the documents that are on both sides; false when a causal part has others.
bool join_runs(const std::vector<DocumentRun>& queries, const std::vector<DocumentRun>& keys,
               bool causal, int64_t sample, std::vector<DocumentTile>& tiles) {
  auto key = keys.begin();
  for (const auto& query : queries) {
    while (key != keys.end() && key->id < query.id) ++key;
    const bool met = key != keys.end() && key->id == query.id;
    if (causal && (!met || key->first != query.first || key->count != query.count)) return false;
    if (met) tiles.push_back({sample, query.first, query.count, key->first, key->count});
  }
  return true;
}

Tensor queries_of(const Tensor& x, const DocumentTile& tile) {
  return x.narrow(0, tile.sample, 1).narrow(2, tile.first_query, tile.num_queries);
}

Tensor keys_of(const Tensor& x, const DocumentTile& tile) {
  return x.narrow(0, tile.sample, 1).narrow(2, tile.first_key, tile.num_keys);
}

}  // namespace

std::optional<std::vector<DocumentTile>> document_tiles(const Visibility& see) {
  if (!see.query_documents.is_cpu()) return std::nullopt;
  const Tensor queries = see.query_documents.contiguous(), keys = see.key_documents.contiguous();
  std::vector<DocumentTile> tiles;
  for (int64_t sample = 0; sample < queries.size(0); ++sample) {
    const auto runs = [&](const Tensor& ids) {
      const int64_t count = ids.size(1);
      return ascending_runs(ids.const_data_ptr<int64_t>() + sample * count, count);
    };
    const auto query_runs = runs(queries), key_runs = runs(keys);
    if (query_runs.empty() || key_runs.empty()) return std::nullopt;
    if (!join_runs(query_runs, key_runs, see.causal, sample, tiles)) return std::nullopt;
  }
  return tiles;
}

PartialAttention tiled_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                                 const std::vector<DocumentTile>& tiles) {
  const int64_t times = q.size(1) / k.size(1);
  const Tensor keys = repeat_heads(k, times), values = repeat_heads(v, times);
  const auto wide = q.options().dtype(at::promote_types(q.scalar_type(), at::kFloat));
  PartialAttention all{at::zeros(q.sizes(), q.options()),
                       at::full({q.size(0), q.size(1), q.size(2)}, kUnseen, wide)};
  for (const auto& tile : tiles) {
    const auto part = run_attention_kernel(AttentionKernel::kCpuFlash, queries_of(q, tile),
                                           keys_of(keys, tile), keys_of(values, tile), causal);
    queries_of(all.out, tile).copy_(part.out);
    queries_of(all.logsumexp, tile).copy_(part.logsumexp);
  }
  return all;
}

AttentionGradients tiled_attention_backward(const Tensor& grad, const Tensor& q, const Tensor& k,
                                            const Tensor& v, const Tensor& out,
                                            const Tensor& logsumexp, bool causal,
                                            const std::vector<DocumentTile>& tiles) {
  const int64_t times = q.size(1) / k.size(1);
  const Tensor keys = repeat_heads(k, times), values = repeat_heads(v, times);
  AttentionGradients all{at::zeros(q.sizes(), q.options()), at::zeros(keys.sizes(), k.options()),
                         at::zeros(values.sizes(), v.options())};
  for (const auto& tile : tiles) {
    const auto part = run_attention_kernel_backward(
        AttentionKernel::kCpuFlash, queries_of(grad, tile), queries_of(q, tile),
        keys_of(keys, tile), keys_of(values, tile), queries_of(out, tile),
        queries_of(logsumexp, tile), causal);
    queries_of(all.q, tile).copy_(part.q);
    keys_of(all.k, tile).copy_(part.k);
    keys_of(all.v, tile).copy_(part.v);
  }
  return {all.q, sum_heads(all.k, times), sum_heads(all.v, times)};
}

}  // namespace titan::ops
