#include "ops/cpu_attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/platform.h"
#include "ops/cpu_math.h"

// Dims: T tokens, D elements of a head, P = T rounded up to a multiple of kWidth.
namespace titan::ops::cpu {
namespace {

constexpr int64_t kRows = 6, kWidth = 16;  // of a tile: 12 vectors of 8 in 16 registers
constexpr int64_t kGroups = 4;             // tiles of queries whose scores the backward pass holds

int64_t round_up(int64_t n) { return (n + kWidth - 1) / kWidth * kWidth; }

typedef float Vector __attribute__((vector_size(32)));
typedef float InMemory __attribute__((vector_size(32), aligned(4), may_alias));

struct Operand {  // element (i, k) at data[i * row + k * column]
  const float* data;
  int64_t row, column;
};

// c[rows, width] (+)= a[rows, depth] b[depth, width]: rows <= kRows, width a multiple of kWidth.
TITAN_VECTOR_CLONES void row_of_tiles(int64_t rows, int64_t width, int64_t depth, const Operand& a,
                                      const float* b, int64_t b_row, float* c, int64_t c_row,
                                      bool add) {
  // Rows that are not there compute what the last one does, unstored.
  const int64_t last = rows - 1, step = a.column;
  const float *a0 = a.data, *a1 = a0 + std::min<int64_t>(1, last) * a.row,
              *a2 = a0 + std::min<int64_t>(2, last) * a.row,
              *a3 = a0 + std::min<int64_t>(3, last) * a.row,
              *a4 = a0 + std::min<int64_t>(4, last) * a.row,
              *a5 = a0 + std::min<int64_t>(5, last) * a.row;
  for (int64_t column = 0; column < width; column += kWidth) {
    Vector c00{}, c01{}, c10{}, c11{}, c20{}, c21{}, c30{}, c31{}, c40{}, c41{}, c50{}, c51{};
    const float* from = b + column;
    for (int64_t k = 0, j = 0; k < depth; ++k, j += step, from += b_row) {
      const Vector b0 = *reinterpret_cast<const InMemory*>(from);
      const Vector b1 = *reinterpret_cast<const InMemory*>(from + 8);
      c00 += a0[j] * b0;
      c01 += a0[j] * b1;
      c10 += a1[j] * b0;
      c11 += a1[j] * b1;
      c20 += a2[j] * b0;
      c21 += a2[j] * b1;
      c30 += a3[j] * b0;
      c31 += a3[j] * b1;
      c40 += a4[j] * b0;
      c41 += a4[j] * b1;
      c50 += a5[j] * b0;
      c51 += a5[j] * b1;
    }
    const Vector all[kRows][2] = {{c00, c01}, {c10, c11}, {c20, c21},
                                  {c30, c31}, {c40, c41}, {c50, c51}};
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t half = 0; half < 2; ++half) {
        // No `auto`: deduction would drop the alignment.
        InMemory* to = reinterpret_cast<InMemory*>(c + i * c_row + column + half * 8);
        *to = add ? *to + all[i][half] : all[i][half];
      }
    }
  }
}

// The same for any number of rows.
void product(int64_t rows, int64_t width, int64_t depth, const Operand& a, const float* b,
             int64_t b_row, float* c, int64_t c_row, bool add = false) {
  for (int64_t i = 0; i < rows; i += kRows) {
    row_of_tiles(std::min(kRows, rows - i), width, depth, {a.data + i * a.row, a.row, a.column}, b,
                 b_row, c + i * c_row, c_row, add);
  }
}

// Scores of one query -> their exponentials less the largest; returns the logsumexp of the scaled
// scores. What lies behind `count` becomes zero.
TITAN_VECTOR_CLONES float softmax_row(float* scores, int64_t count, int64_t width, float scale,
                                      float* inverse_sum) {
  float best = scores[0];
#pragma omp simd reduction(max : best)
  for (int64_t j = 1; j < count; ++j) best = scores[j] > best ? scores[j] : best;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < count; ++j) {
    scores[j] = exp_fast((scores[j] - best) * scale);
    sum += scores[j];
  }
  for (int64_t j = count; j < width; ++j) scores[j] = 0;
  *inverse_sum = 1.0f / sum;
  return best * scale + std::log(sum);
}

// Scores -> probabilities, and dprobabilities -> the gradient of the scores.
TITAN_VECTOR_CLONES void gradient_row(float* scores, float* d, int64_t count, int64_t width,
                                      float scale, float logsumexp, float delta) {
  for (int64_t j = 0; j < count; ++j) {
    scores[j] = exp_fast(scores[j] * scale - logsumexp);
    d[j] = scores[j] * (d[j] - delta) * scale;
  }
  for (int64_t j = count; j < width; ++j) scores[j] = d[j] = 0;
}

TITAN_VECTOR_CLONES void scale_row(const float* from, float factor, int64_t n, float* to) {
  for (int64_t j = 0; j < n; ++j) to[j] = from[j] * factor;
}

TITAN_VECTOR_CLONES float dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) sum += a[j] * b[j];
  return sum;
}

float* head(const HeadArray& x, int64_t batch, int64_t h) {
  return x.data + batch * x.batch_stride + h * x.head_stride;
}

void pack(const float* from, int64_t token_stride, int64_t T, int64_t D, float* to) {
  for (int64_t t = 0; t < T; ++t)
    std::memcpy(to + t * D, from + t * token_stride, sizeof(float) * D);
}

// [T, D] -> [D, P]; columns from T on stay as they are (zero).
void pack_transposed(const float* from, int64_t token_stride, int64_t T, int64_t D, int64_t P,
                     float* to) {
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t d = 0; d < D; ++d) to[d * P + t] = from[t * token_stride + d];
  }
}

}  // namespace

bool attention_serves(const AttentionSizes& s) {
  constexpr int64_t kPackedFloats = 1 << 17;  // 512 KiB of keys, as many of values
  return s.head_dim % kWidth == 0 && s.head_dim <= 64 && s.tokens * s.head_dim <= kPackedFloats;
}

void attention(const AttentionSizes& s, const HeadArray& q, const HeadArray& k, const HeadArray& v,
               const HeadArray& out, float* logsumexp) {
  const int64_t T = s.tokens, D = s.head_dim, P = round_up(T), share = s.heads / s.kv_heads;
  const float scale = 1.0f / std::sqrt(static_cast<float>(D));
  at::parallel_for(0, s.batch * s.kv_heads, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> keys(static_cast<size_t>(D * P)), values(static_cast<size_t>(T * D)),
        scores(static_cast<size_t>(kRows * P)), sums(static_cast<size_t>(kRows * D));
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t b = unit / s.kv_heads, group = unit % s.kv_heads;
      pack_transposed(head(k, b, group), k.token_stride, T, D, P, keys.data());
      pack(head(v, b, group), v.token_stride, T, D, values.data());
      for (int64_t h = group * share; h < (group + 1) * share; ++h) {
        for (int64_t first = 0; first < T; first += kRows) {
          const int64_t rows = std::min(kRows, T - first), seen = first + rows,
                        width = round_up(seen);
          product(rows, width, D, {head(q, b, h) + first * q.token_stride, q.token_stride, 1},
                  keys.data(), P, scores.data(), P);
          float inverse_sums[kRows];
          for (int64_t i = 0; i < rows; ++i) {
            logsumexp[(b * s.heads + h) * T + first + i] =
                softmax_row(scores.data() + i * P, first + i + 1, width, scale, inverse_sums + i);
          }
          product(rows, D, seen, {scores.data(), P, 1}, values.data(), D, sums.data(), D);
          for (int64_t i = 0; i < rows; ++i) {
            scale_row(sums.data() + i * D, inverse_sums[i], D,
                      head(out, b, h) + (first + i) * out.token_stride);
          }
        }
      }
    }
  });
}

void attention_backward(const AttentionSizes& s, const HeadArray& grad, const HeadArray& q,
                        const HeadArray& k, const HeadArray& v, const HeadArray& out,
                        const float* logsumexp, const HeadArray& dq, const HeadArray& dk,
                        const HeadArray& dv) {
  const int64_t T = s.tokens, D = s.head_dim, P = round_up(T), share = s.heads / s.kv_heads;
  const float scale = 1.0f / std::sqrt(static_cast<float>(D));
  constexpr int64_t kHeld = kRows * kGroups;
  at::parallel_for(0, s.batch * s.kv_heads, 1, [&](int64_t begin, int64_t end) {
    const auto buffer = [](int64_t n) { return std::vector<float>(static_cast<size_t>(n)); };
    auto keys = buffer(T * D), keys_t = buffer(D * P), values_t = buffer(D * P),
         queries = buffer(T * D), grads = buffer(T * D), scores = buffer(kHeld * P),
         d_scores = buffer(kHeld * P), d_keys = buffer(T * D), d_values = buffer(T * D);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t b = unit / s.kv_heads, group = unit % s.kv_heads;
      pack(head(k, b, group), k.token_stride, T, D, keys.data());
      pack_transposed(head(k, b, group), k.token_stride, T, D, P, keys_t.data());
      pack_transposed(head(v, b, group), v.token_stride, T, D, P, values_t.data());
      std::fill(d_keys.begin(), d_keys.end(), 0.0f);
      std::fill(d_values.begin(), d_values.end(), 0.0f);
      for (int64_t h = group * share; h < (group + 1) * share; ++h) {
        pack(head(q, b, h), q.token_stride, T, D, queries.data());
        pack(head(grad, b, h), grad.token_stride, T, D, grads.data());
        for (int64_t first = 0; first < T; first += kHeld) {
          const int64_t held = std::min(kHeld, T - first), seen = first + held,
                        width = round_up(seen);
          for (int64_t i = 0; i < held; i += kRows) {
            const int64_t rows = std::min(kRows, held - i), t = first + i,
                          needed = round_up(t + rows);
            float *score = scores.data() + i * P, *d = d_scores.data() + i * P;
            product(rows, needed, D, {queries.data() + t * D, D, 1}, keys_t.data(), P, score, P);
            product(rows, needed, D, {grads.data() + t * D, D, 1}, values_t.data(), P, d, P);
            for (int64_t r = 0; r < rows; ++r) {
              const float delta =
                  dot(grads.data() + (t + r) * D, head(out, b, h) + (t + r) * out.token_stride, D);
              gradient_row(score + r * P, d + r * P, t + r + 1, width, scale,
                           logsumexp[(b * s.heads + h) * T + t + r], delta);
            }
            product(rows, D, t + rows, {d, P, 1}, keys.data(), D,
                    head(dq, b, h) + t * dq.token_stride, dq.token_stride);
          }
          product(seen, D, held, {scores.data(), 1, P}, grads.data() + first * D, D,
                  d_values.data(), D, /*add=*/true);
          product(seen, D, held, {d_scores.data(), 1, P}, queries.data() + first * D, D,
                  d_keys.data(), D, /*add=*/true);
        }
      }
      for (int64_t t = 0; t < T; ++t) {
        const size_t bytes = sizeof(float) * static_cast<size_t>(D);
        std::memcpy(head(dk, b, group) + t * dk.token_stride, d_keys.data() + t * D, bytes);
        std::memcpy(head(dv, b, group) + t * dv.token_stride, d_values.data() + t * D, bytes);
      }
    }
  });
}

}  // namespace titan::ops::cpu
