// CPU kernels for float32, row by row over contiguous memory: the fused paths of ops whose ATen
// forms make several passes. Plain pointers, no autograd; each op's file checks shapes and dtypes
// before it calls them.
#pragma once

#include <cstdint>

namespace titan::ops::cpu {

// y[i,:] = x[i,:] * r_i * w with r_i = 1/sqrt(mean(x[i,:]^2) + eps); `inverse_rms` [rows] receives
// r.
void rms_norm(const float* x, const float* w, double eps, int64_t rows, int64_t dim, float* y,
              float* inverse_rms);
// dx [rows,dim], dw [dim] (overwritten) from dy and what rms_norm() saw and left.
void rms_norm_backward(const float* dy, const float* x, const float* w, const float* inverse_rms,
                       int64_t rows, int64_t dim, float* dx, float* dw);

// y = silu(gate) * up, elementwise over n.
void swiglu(const float* gate, const float* up, int64_t n, float* y);
void swiglu_backward(const float* dy, const float* gate, const float* up, int64_t n, float* d_gate,
                     float* d_up);

// Rotates each pair of x [rows, heads, 2*half] by the angle whose cos/sin are table rows [row %
// table_rows, half]; sign = -1 rotates back. Pairs are (2i, 2i+1) when interleaved, else (i,
// i+half).
void rope(const float* x, const float* cos, const float* sin, int64_t rows, int64_t table_rows,
          int64_t heads, int64_t half, bool interleaved, float sign, float* y);

// Per row of logits [rows, vocab]: loss[i] = logsumexp - logits[label]; when `scale` is given,
// logits are replaced by (softmax - onehot(label)) * scale. Rows whose label equals `ignored` give
// 0 and a zero gradient.
void softmax_cross_entropy(float* logits, const int64_t* labels, int64_t rows, int64_t vocab,
                           int64_t ignored, const float* scale, float* loss);

}  // namespace titan::ops::cpu
