// Causal attention for heads of 16 or 32 elements, where the libraries' kernels are made for 64 and
// more (Dao 2023, arXiv 2307.08691, in tiles of 64 queries and 64 keys; a warp holds 16 rows). No
// atomics: gradients of keys and of queries have a kernel each, so results are the same every time.
#pragma once

#include "device/cuda/kernels/warp.cuh"

namespace titan::device::cuda::kernels {

inline constexpr int kAttentionTile = 64, kAttentionThreads = 128;

// Token t of batch b, head h: data + b * batch + t * token + h * head_dim.
template <class T>
struct HeadView {
  T* data;
  int64_t batch, token;  // strides, multiples of 8
};

template <class T>
struct AttentionArguments {
  HeadView<const T> q, k, v, out, grad;  // out and grad: backward only
  HeadView<T> out_to, dq, dk, dv;
  float* logsumexp;  // [batch, heads, tokens], to the base 2, of the scaled scores
  float* delta;      // [batch, heads, tokens]: sums of grad * out
  int tokens, heads, heads_per_kv;
  float scale;  // of the scores
};

namespace attention_tiles {

constexpr int kTile = kAttentionTile, kThreads = kAttentionThreads;
constexpr int kPairs = kTile / 16;  // of 8-column tiles in a row of scores
constexpr float kLog2E = 1.4426950408889634f;

// Rows in shared memory are 16 bytes longer than a head: 8 of them, as ldmatrix reads, touch each
// bank once.
template <int D>
inline constexpr int kPitch = D + 8;

template <class T, int D>
struct Tile {
  alignas(16) T at[kTile * kPitch<D>];
};

// Rows [first, first + kTile) of a head, zeros from row `count` on.
template <class T, int D>
__device__ __forceinline__ void fetch(Tile<T, D>& to, const HeadView<const T>& view, int64_t batch,
                                      int head, int first, int count) {
  constexpr int kChunks = D / 8;
  const T* from = view.data + batch * view.batch + static_cast<int64_t>(head) * D;
#pragma unroll
  for (int i = threadIdx.x; i < kTile * kChunks; i += kThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const bool real = first + row < count;
    const int64_t token = real ? first + row : 0;
    copy_async<16>(to.at + row * kPitch<D> + chunk * 8, from + token * view.token + chunk * 8,
                   real);
  }
}

__device__ __forceinline__ void fetch_numbers(float* to, const float* from, int first, int count) {
  if (threadIdx.x < kTile) {
    const int at = first + static_cast<int>(threadIdx.x);
    copy_async<4>(to + threadIdx.x, from + (at < count ? at : 0), at < count);
  }
}

__device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }

// Rows [row, row + 16), columns [column, column + 16) as the first operand.
template <class T, int D>
__device__ __forceinline__ void first_operand(uint32_t (&to)[4], const Tile<T, D>& tile, int row,
                                              int column) {
  const int matrix = lane() / 8;
  load_matrices(
      to, tile.at + (row + matrix % 2 * 8 + lane() % 8) * kPitch<D> + column + matrix / 2 * 8);
}
// The same elements, rows as columns of the second operand: two tiles of 8 columns.
template <class T, int D>
__device__ __forceinline__ void second_operand_of_rows(uint32_t (&to)[4], const Tile<T, D>& tile,
                                                       int row, int column) {
  const int matrix = lane() / 8;
  load_matrices(
      to, tile.at + (row + matrix / 2 * 8 + lane() % 8) * kPitch<D> + column + matrix % 2 * 8);
}
// The same elements as they are, rows being summed over.
template <class T, int D>
__device__ __forceinline__ void second_operand(uint32_t (&to)[4], const Tile<T, D>& tile, int row,
                                               int column) {
  const int matrix = lane() / 8;
  load_matrices_transposed(
      to, tile.at + (row + matrix % 2 * 8 + lane() % 8) * kPitch<D> + column + matrix / 2 * 8);
}

// 16 rows of a matrix in a warp, 8 columns per entry.
template <int kColumns>
using Rows = float[kColumns / 8][4];

template <int kColumns>
__device__ __forceinline__ void clear(Rows<kColumns>& rows) {
#pragma unroll
  for (auto& tile : rows) {
#pragma unroll
    for (float& x : tile) x = 0;
  }
}

// to[:, pairs] = a tile^T for the pairs [begin, end) of its rows.
template <class T, int D>
__device__ __forceinline__ void times_rows(Rows<kTile>& to, const uint32_t (&a)[D / 16][4],
                                           const Tile<T, D>& tile, int begin, int end) {
  clear<kTile>(to);
#pragma unroll
  for (int pair = 0; pair < kPairs; ++pair) {
    if (pair < begin || pair >= end) continue;
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      uint32_t b[4];
      second_operand_of_rows(b, tile, pair * 16, k * 16);
      multiply_add<T>(to[2 * pair], a[k], b[0], b[1]);
      multiply_add<T>(to[2 * pair + 1], a[k], b[2], b[3]);
    }
  }
}

// sum += weights tile, weights rounded to T, for the pairs [begin, end) of the tile's rows.
template <class T, int D>
__device__ __forceinline__ void add_product(Rows<D>& sum, const Rows<kTile>& weights,
                                            const Tile<T, D>& tile, int begin, int end) {
#pragma unroll
  for (int pair = 0; pair < kPairs; ++pair) {
    if (pair < begin || pair >= end) continue;
    const auto &left = weights[2 * pair], &right = weights[2 * pair + 1];
    const uint32_t a[4] = {pack<T>(left[0], left[1]), pack<T>(left[2], left[3]),
                           pack<T>(right[0], right[1]), pack<T>(right[2], right[3])};
#pragma unroll
    for (int n = 0; n < D / 16; ++n) {
      uint32_t b[4];
      second_operand(b, tile, pair * 16, n * 16);
      multiply_add<T>(sum[2 * n], a, b[0], b[1]);
      multiply_add<T>(sum[2 * n + 1], a, b[2], b[3]);
    }
  }
}

// Rows [first, first + 16) of a head, those below `count`, times `factors` of a lane's two rows.
template <class T, int D>
__device__ __forceinline__ void store_rows(const HeadView<T>& view, int64_t batch, int head,
                                           int first, int count, const Rows<D>& rows,
                                           const float (&factors)[2]) {
  T* to = view.data + batch * view.batch + static_cast<int64_t>(head) * D;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + lane() / 4 + half * 8;
    if (row >= count) continue;
#pragma unroll
    for (int tile = 0; tile < D / 8; ++tile) {
      *reinterpret_cast<uint32_t*>(to + row * view.token + tile * 8 + lane() % 4 * 2) =
          pack<T>(rows[tile][2 * half] * factors[half], rows[tile][2 * half + 1] * factors[half]);
    }
  }
}

template <int D>
__device__ __forceinline__ float over_four_lanes_max(float x) {
  x = fmaxf(x, shuffle_xor(x, 1));
  return fmaxf(x, shuffle_xor(x, 2));
}
__device__ __forceinline__ float over_four_lanes_sum(float x) {
  x += shuffle_xor(x, 1);
  return x + shuffle_xor(x, 2);
}

}  // namespace attention_tiles

// Grid: tiles of queries, heads, batch. The tiles that see most keys come first.
template <class T, int D>
__global__ void __launch_bounds__(kAttentionThreads, 4) attention_forward(AttentionArguments<T> p) {
  using namespace attention_tiles;
  __shared__ Tile<T, D> queries, keys[2], values[2];
  const int tiles = static_cast<int>(gridDim.x), tile = tiles - 1 - static_cast<int>(blockIdx.x);
  const int head = static_cast<int>(blockIdx.y), kv = head / p.heads_per_kv;
  const int64_t batch = blockIdx.z;
  const int first = tile * kTile, row = first + warp() * 16 + lane() / 4;
  const auto fetch_keys = [&](int block) {
    fetch(keys[block % 2], p.k, batch, kv, block * kTile, p.tokens);
    fetch(values[block % 2], p.v, batch, kv, block * kTile, p.tokens);
    end_copy_group();
  };
  fetch(queries, p.q, batch, head, first, p.tokens);
  fetch_keys(0);
  uint32_t q[D / 16][4];
  Rows<D> sum;
  clear<D>(sum);
  float best[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
  const float factor = p.scale * kLog2E;
  for (int block = 0; block <= tile; ++block) {
    if (block < tile) {
      fetch_keys(block + 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    if (block == 0) {
#pragma unroll
      for (int k = 0; k < D / 16; ++k) first_operand(q[k], queries, warp() * 16, k * 16);
    }
    const bool diagonal = block == tile;
    const int pairs = diagonal ? warp() + 1 : kPairs;  // the others lie in the future
    Rows<kTile> scores;
    times_rows(scores, q, keys[block % 2], 0, pairs);
    if (diagonal) {
#pragma unroll
      for (int i = 0; i < kTile / 8; ++i) {
        const int key = block * kTile + i * 8 + lane() % 4 * 2;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (key + j % 2 > row + j / 2 * 8) scores[i][j] = -INFINITY;
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float highest = best[half];
#pragma unroll
      for (int i = 0; i < kTile / 8; ++i) {
        highest = fmaxf(highest, fmaxf(scores[i][2 * half], scores[i][2 * half + 1]));
      }
      highest = over_four_lanes_max<D>(highest);
      const float shrink = exp2_fast((best[half] - highest) * factor);
      best[half] = highest;
      const float offset = highest * factor;
      float part = 0;
#pragma unroll
      for (int i = 0; i < kTile / 8; ++i) {
#pragma unroll
        for (int j = 2 * half; j < 2 * half + 2; ++j) {
          scores[i][j] = exp2_fast(scores[i][j] * factor - offset);
          part += scores[i][j];
        }
      }
      total[half] = total[half] * shrink + part;
#pragma unroll
      for (int i = 0; i < D / 8; ++i) {
        sum[i][2 * half] *= shrink;
        sum[i][2 * half + 1] *= shrink;
      }
    }
    add_product(sum, scores, values[block % 2], 0, pairs);
    __syncthreads();
  }
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float all = over_four_lanes_sum(total[half]);
    inverse[half] = 1 / all;
    if (lane() % 4 == 0 && row + half * 8 < p.tokens) {
      p.logsumexp[(batch * p.heads + head) * p.tokens + row + half * 8] =
          best[half] * factor + log2f(all);
    }
  }
  store_rows<T, D>(p.out_to, batch, head, first + warp() * 16, p.tokens, sum, inverse);
}

// Gradient of the queries, and the deltas that the other kernel reads. Grid as above.
template <class T, int D>
__global__ void __launch_bounds__(kAttentionThreads, D == 16 ? 4 : 3)
    attention_backward_queries(AttentionArguments<T> p) {
  using namespace attention_tiles;
  __shared__ Tile<T, D> queries, grads, keys[2], values[2];
  __shared__ float deltas[kTile];
  const int tiles = static_cast<int>(gridDim.x), tile = tiles - 1 - static_cast<int>(blockIdx.x);
  const int head = static_cast<int>(blockIdx.y), kv = head / p.heads_per_kv;
  const int64_t batch = blockIdx.z;
  const int first = tile * kTile, row = first + warp() * 16 + lane() / 4;
  const int64_t numbers = (batch * p.heads + head) * p.tokens;
  const auto fetch_keys = [&](int block) {
    fetch(keys[block % 2], p.k, batch, kv, block * kTile, p.tokens);
    fetch(values[block % 2], p.v, batch, kv, block * kTile, p.tokens);
    end_copy_group();
  };
  fetch(queries, p.q, batch, head, first, p.tokens);
  fetch(grads, p.grad, batch, head, first, p.tokens);
  fetch_keys(0);
  if (threadIdx.x < kTile) {
    const int token = first + static_cast<int>(threadIdx.x);
    float delta = 0;
    if (token < p.tokens) {
      const auto at = [&](const HeadView<const T>& view) {
        return reinterpret_cast<const uint32_t*>(
            view.data + batch * view.batch + token * view.token + static_cast<int64_t>(head) * D);
      };
      const uint32_t *grad = at(p.grad), *out = at(p.out);
#pragma unroll
      for (int i = 0; i < D / 2; ++i) {
        const float2 a = unpack<T>(grad[i]), b = unpack<T>(out[i]);
        delta += a.x * b.x + a.y * b.y;
      }
      p.delta[numbers + token] = delta;
    }
    deltas[threadIdx.x] = delta;
  }
  uint32_t q[D / 16][4], grad[D / 16][4];
  float delta[2], logsumexp[2];
  Rows<D> sum;
  clear<D>(sum);
  const float factor = p.scale * kLog2E;
  for (int block = 0; block <= tile; ++block) {
    if (block < tile) {
      fetch_keys(block + 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    if (block == 0) {
#pragma unroll
      for (int k = 0; k < D / 16; ++k) {
        first_operand(q[k], queries, warp() * 16, k * 16);
        first_operand(grad[k], grads, warp() * 16, k * 16);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int token = row + half * 8;
        delta[half] = deltas[token - first];
        logsumexp[half] = p.logsumexp[numbers + (token < p.tokens ? token : 0)];
      }
    }
    const bool diagonal = block == tile;
    const int pairs = diagonal ? warp() + 1 : kPairs;
    Rows<kTile> scores, d_scores;
    times_rows(scores, q, keys[block % 2], 0, pairs);
    times_rows(d_scores, grad, values[block % 2], 0, pairs);
#pragma unroll
    for (int i = 0; i < kTile / 8; ++i) {
      const int key = block * kTile + i * 8 + lane() % 4 * 2;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float weight = exp2_fast(scores[i][j] * factor - logsumexp[j / 2]);
        if (diagonal && key + j % 2 > row + j / 2 * 8) weight = 0;
        d_scores[i][j] = weight * (d_scores[i][j] - delta[j / 2]);
      }
    }
    add_product(sum, d_scores, keys[block % 2], 0, pairs);
    __syncthreads();
  }
  store_rows<T, D>(p.dq, batch, head, first + warp() * 16, p.tokens, sum, {p.scale, p.scale});
}

// Gradients of keys and values, over all heads that share them. Grid: tiles of keys, key-value
// heads, batch. The tiles that most queries see come first.
template <class T, int D>
__global__ void __launch_bounds__(kAttentionThreads, D == 16 ? 4 : 3)
    attention_backward_keys(AttentionArguments<T> p) {
  using namespace attention_tiles;
  __shared__ Tile<T, D> queries[2], grads[2];
  __shared__ float logsumexps[2][kTile], deltas[2][kTile];
  const int tiles = static_cast<int>(gridDim.x), tile = static_cast<int>(blockIdx.x);
  const int kv = static_cast<int>(blockIdx.y);
  const int64_t batch = blockIdx.z;
  const int first = tile * kTile, row = first + warp() * 16 + lane() / 4;
  const int blocks = tiles - tile, rounds = blocks * p.heads_per_kv;
  const auto fetch_queries = [&](int round) {
    const int head = kv * p.heads_per_kv + round / blocks;
    const int begin = (tile + round % blocks) * kTile;
    fetch(queries[round % 2], p.q, batch, head, begin, p.tokens);
    fetch(grads[round % 2], p.grad, batch, head, begin, p.tokens);
    const int64_t numbers = (batch * p.heads + head) * p.tokens;
    fetch_numbers(logsumexps[round % 2], p.logsumexp + numbers, begin, p.tokens);
    fetch_numbers(deltas[round % 2], p.delta + numbers, begin, p.tokens);
    end_copy_group();
  };
  // The keys and values of this tile pass through the buffers of the second round.
  fetch(queries[1], p.k, batch, kv, first, p.tokens);
  fetch(grads[1], p.v, batch, kv, first, p.tokens);
  end_copy_group();
  fetch_queries(0);
  wait_for_copies<1>();
  __syncthreads();
  uint32_t keys[D / 16][4], values[D / 16][4];
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    first_operand(keys[k], queries[1], warp() * 16, k * 16);
    first_operand(values[k], grads[1], warp() * 16, k * 16);
  }
  __syncthreads();
  Rows<D> d_keys, d_values;
  clear<D>(d_keys);
  clear<D>(d_values);
  const float factor = p.scale * kLog2E;
  for (int round = 0; round < rounds; ++round) {
    if (round + 1 < rounds) {
      fetch_queries(round + 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    const int now = round % 2, begin = (tile + round % blocks) * kTile;
    const bool diagonal = round % blocks == 0;
    const int from = diagonal ? warp() : 0;  // earlier queries do not see these keys
    Rows<kTile> weights, d_scores;
    times_rows(weights, keys, queries[now], from, kPairs);
    times_rows(d_scores, values, grads[now], from, kPairs);
#pragma unroll
    for (int i = 0; i < kTile / 8; ++i) {
      const int column = i * 8 + lane() % 4 * 2;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int query = begin + column + j % 2;
        float weight = exp2_fast(weights[i][j] * factor - logsumexps[now][column + j % 2]);
        if (diagonal && query < row + j / 2 * 8) weight = 0;  // those past the end add zeros
        weights[i][j] = weight;
        d_scores[i][j] = weight * (d_scores[i][j] - deltas[now][column + j % 2]);
      }
    }
    add_product(d_values, weights, grads[now], from, kPairs);
    add_product(d_keys, d_scores, queries[now], from, kPairs);
    __syncthreads();
  }
  store_rows<T, D>(p.dk, batch, kv, first + warp() * 16, p.tokens, d_keys, {p.scale, p.scale});
  store_rows<T, D>(p.dv, batch, kv, first + warp() * 16, p.tokens, d_values, {1.0f, 1.0f});
}

}  // namespace titan::device::cuda::kernels
