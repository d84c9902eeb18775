#include "ops/cpu_kernels.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/platform.h"
#include "ops/cpu_math.h"

namespace titan::ops::cpu {
namespace {

// Rows that are worth a thread of their own: about 16k elements.
int64_t grain(int64_t dim) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(dim, 1)); }

TITAN_VECTOR_CLONES void rms_norm_row(const float* x, const float* w, float eps, int64_t dim,
                                      float* y, float* inverse_rms) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < dim; ++j) sum += x[j] * x[j];
  const float r = 1.0f / std::sqrt(sum / static_cast<float>(dim) + eps);
  *inverse_rms = r;
  for (int64_t j = 0; j < dim; ++j) y[j] = x[j] * r * w[j];
}

TITAN_VECTOR_CLONES void rms_norm_backward_row(const float* dy, const float* x, const float* w,
                                               float r, int64_t dim, float* dx, float* dw) {
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int64_t j = 0; j < dim; ++j) dot += dy[j] * w[j] * x[j];
  const float c = dot * r * r * r / static_cast<float>(dim);
  for (int64_t j = 0; j < dim; ++j) {
    dx[j] = dy[j] * w[j] * r - x[j] * c;
    dw[j] += dy[j] * x[j] * r;
  }
}

// silu is 0 below this; exp_fast ends at 88, so a gate of -1e30 would otherwise leave a trace.
constexpr float kSmallestGate = -200.0f;

TITAN_VECTOR_CLONES void swiglu_range(const float* gate, const float* up, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = std::max(gate[i], kSmallestGate);
    y[i] = g / (1.0f + exp_fast(-g)) * up[i];
  }
}

TITAN_VECTOR_CLONES void swiglu_backward_range(const float* dy, const float* gate, const float* up,
                                               int64_t n, float* d_gate, float* d_up) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = std::max(gate[i], kSmallestGate);
    const float s = 1.0f / (1.0f + exp_fast(-g));
    d_up[i] = dy[i] * g * s;
    d_gate[i] = dy[i] * up[i] * s * (1.0f + g * (1.0f - s));
  }
}

TITAN_VECTOR_CLONES void rotate_interleaved(const float* x, const float* cos, const float* sin,
                                            int64_t half, float sign, float* y) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1], s = sign * sin[i];
    y[2 * i] = a * cos[i] - b * s;
    y[2 * i + 1] = a * s + b * cos[i];
  }
}

TITAN_VECTOR_CLONES void rotate_halves(const float* x, const float* cos, const float* sin,
                                       int64_t half, float sign, float* y) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half], s = sign * sin[i];
    y[i] = a * cos[i] - b * s;
    y[i + half] = a * s + b * cos[i];
  }
}

TITAN_VECTOR_CLONES float row_max(const float* x, int64_t n) {
  float best = x[0];
#pragma omp simd reduction(max : best)
  for (int64_t j = 1; j < n; ++j) best = x[j] > best ? x[j] : best;
  return best;
}

TITAN_VECTOR_CLONES double row_sum_exp(const float* x, int64_t n, float maximum) {
  // Partial sums of 4096 keep float32's error far below the contract's 1e-6 for the longest
  // vocabularies.
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += 4096) {
    const int64_t end = std::min(n, begin + 4096);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = begin; j < end; ++j) sum += exp_fast(x[j] - maximum);
    total += sum;
  }
  return total;
}

TITAN_VECTOR_CLONES void row_gradient(float* x, int64_t n, float maximum, float factor) {
  for (int64_t j = 0; j < n; ++j) x[j] = exp_fast(x[j] - maximum) * factor;
}

}  // namespace

void rms_norm(const float* x, const float* w, double eps, int64_t rows, int64_t dim, float* y,
              float* inverse_rms) {
  at::parallel_for(0, rows, grain(dim), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      rms_norm_row(x + i * dim, w, static_cast<float>(eps), dim, y + i * dim, inverse_rms + i);
    }
  });
}

void rms_norm_backward(const float* dy, const float* x, const float* w, const float* inverse_rms,
                       int64_t rows, int64_t dim, float* dx, float* dw) {
  // A fixed number of partial sums, not one per thread: the result does not depend on the number of
  // threads.
  const int64_t parts = std::min<int64_t>(16, rows);
  std::vector<float> partial(static_cast<size_t>(parts * dim), 0.0f);
  at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      for (int64_t i = rows * part / parts; i < rows * (part + 1) / parts; ++i) {
        rms_norm_backward_row(dy + i * dim, x + i * dim, w, inverse_rms[i], dim, dx + i * dim,
                              partial.data() + part * dim);
      }
    }
  });
  std::fill(dw, dw + dim, 0.0f);
  for (int64_t part = 0; part < parts; ++part) {
    for (int64_t j = 0; j < dim; ++j) dw[j] += partial[static_cast<size_t>(part * dim + j)];
  }
}

void swiglu(const float* gate, const float* up, int64_t n, float* y) {
  at::parallel_for(0, n, 16384, [&](int64_t begin, int64_t end) {
    swiglu_range(gate + begin, up + begin, end - begin, y + begin);
  });
}

void swiglu_backward(const float* dy, const float* gate, const float* up, int64_t n, float* d_gate,
                     float* d_up) {
  at::parallel_for(0, n, 16384, [&](int64_t begin, int64_t end) {
    swiglu_backward_range(dy + begin, gate + begin, up + begin, end - begin, d_gate + begin,
                          d_up + begin);
  });
}

void rope(const float* x, const float* cos, const float* sin, int64_t rows, int64_t table_rows,
          int64_t heads, int64_t half, bool interleaved, float sign, float* y) {
  const auto rotate = interleaved ? rotate_interleaved : rotate_halves;
  at::parallel_for(0, rows, grain(heads * half * 2), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i % table_rows * half;
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t offset = (i * heads + h) * 2 * half;
        rotate(x + offset, cos + at, sin + at, half, sign, y + offset);
      }
    }
  });
}

void softmax_cross_entropy(float* logits, const int64_t* labels, int64_t rows, int64_t vocab,
                           int64_t ignored, const float* scale, float* loss) {
  at::parallel_for(0, rows, grain(vocab), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* row = logits + i * vocab;
      if (labels[i] == ignored) {
        loss[i] = 0;
        if (scale) std::fill(row, row + vocab, 0.0f);
        continue;
      }
      const float maximum = row_max(row, vocab);
      const double sum = row_sum_exp(row, vocab, maximum);
      loss[i] = static_cast<float>(std::log(sum) - (static_cast<double>(row[labels[i]]) - maximum));
      if (!scale) continue;
      row_gradient(row, vocab, maximum, static_cast<float>(*scale / sum));
      row[labels[i]] -= *scale;
    }
  });
}

}  // namespace titan::ops::cpu
