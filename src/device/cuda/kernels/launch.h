// titan's own CUDA kernels behind plain functions: no libtorch here, so that a kernel compiles in
// seconds. The operators that check shapes and give tensors are in device/cuda/operators.cpp.
//
// Pointers are device memory, rows are contiguous; every function queues its work on `stream` and
// returns. Matrices of 16-bit elements whose rows hold a multiple of 8 elements (float32: of 4) and
// start at multiples of 16 bytes are called "wide" below: they move 16 bytes a thread.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace titan::device::cuda::kernels {

enum class Element { kFloat32, kBFloat16, kFloat16 };

// RMSNorm (Zhang & Sennrich 2019, arXiv 1910.07467): y = x * inverse_rms * weight.
// Whether rows of `dim` elements are served: wide ones of at most 16,384 16-bit elements (float32:
// 8,192).
bool rms_norm_serves(Element element, int64_t dim);
void rms_norm(Element element, const void* x, const void* weight, double eps, int64_t rows,
              int64_t dim, void* y, float* inverse_rms, cudaStream_t stream);
// Rows of `partial`, [parts, dim] float32: the weight gradient in parts.
int64_t rms_norm_parts(Element element, int64_t rows, int64_t dim);
// dx = gradient of x, plus `residual` (null: none). dw is of `element`.
void rms_norm_backward(Element element, const void* dy, const void* x, const void* weight,
                       const float* inverse_rms, const void* residual, int64_t rows, int64_t dim,
                       void* dx, float* partial, void* dw, cudaStream_t stream);

// Rotary embedding (Su et al. 2021, arXiv 2104.09864) of packed projections: a row holds the heads
// of queries, of keys and of values, head_dim elements each. cos and sin: [table_rows, head_dim/2]
// float32, row r of the projections reads row r modulo table_rows.
struct Heads {
  int64_t queries, keys;  // as many values as keys
  int64_t head_dim;
  bool interleaved;  // pairs are (2i, 2i+1), else (i, i + head_dim/2)

  int64_t width() const { return (queries + 2 * keys) * head_dim; }
};
// head_dim is a multiple of twice the elements in 16 bytes.
bool rope_serves(Element element, const Heads& heads);
// Turns queries and keys in place.
void rope(Element element, void* packed, const float* cos, const float* sin, int64_t rows,
          int64_t table_rows, const Heads& heads, cudaStream_t stream);
// Turns gradients of queries and keys back and puts them and the values' gradient into packed rows.
// dq [rows, queries, head_dim], dk and dv [rows, keys, head_dim].
void rope_backward(Element element, const void* dq, const void* dk, const void* dv,
                   const float* cos, const float* sin, int64_t rows, int64_t table_rows,
                   const Heads& heads, void* packed, cudaStream_t stream);

// Causal self-attention for heads of 16 or 32 16-bit elements, query i over keys 0..i. Token t of
// batch b, head h of an array: data + b * batch_stride + t * token_stride + h * head_dim, strides
// in elements and multiples of 8, data at a multiple of 16 bytes.
struct AttentionSizes {
  int64_t batch, heads, kv_heads, tokens, head_dim;
};
struct AttentionArray {
  const void* data;  // written where it is an output
  int64_t batch_stride, token_stride;
};
bool attention_serves(Element element, const AttentionSizes& sizes);
// logsumexp [batch, heads, tokens] of the scaled scores, to the base 2.
void attention(Element element, const AttentionSizes& sizes, const AttentionArray& q,
               const AttentionArray& k, const AttentionArray& v, const AttentionArray& out,
               float* logsumexp, cudaStream_t stream);
// delta: space for [batch, heads, tokens]. The same result every time.
void attention_backward(Element element, const AttentionSizes& sizes, const AttentionArray& grad,
                        const AttentionArray& q, const AttentionArray& k, const AttentionArray& v,
                        const AttentionArray& out, float* logsumexp, float* delta,
                        const AttentionArray& dq, const AttentionArray& dk,
                        const AttentionArray& dv, cudaStream_t stream);

// SwiGLU (Shazeer 2020, arXiv 2002.05202) of packed projections: a row holds `width` elements of
// gate, then of up. Wide rows.
void swiglu(Element element, const void* gate_up, int64_t rows, int64_t width, void* y,
            cudaStream_t stream);
void swiglu_backward(Element element, const void* dy, const void* gate_up, int64_t rows,
                     int64_t width, void* d_gate_up, cudaStream_t stream);

// Cross-entropy of each row of logits against its label; a row whose label is `ignored` has loss 0.
// scale (null: no gradient): a float32 scalar; the logits become their gradient times it.
void cross_entropy(Element element, void* logits, const int64_t* labels, int64_t ignored,
                   const float* scale, int64_t rows, int64_t vocab, float* losses,
                   cudaStream_t stream);

// float8 (Micikevicius et al. 2022, arXiv 2209.05433), one scale for a tensor: the largest
// magnitude becomes the largest number of the format.
enum class Float8 { kE4M3, kE5M2 };
// amax = the largest magnitude of `count` elements, a multiple of 8; x is 16-bit. Overwrites amax.
void largest_magnitude(Element element, const void* x, int64_t count, float* amax,
                       cudaStream_t stream);
// x [rows, columns] of 16-bit elements, both multiples of 16, times 448 (E5M2: 57344) / amax, as
// float8: `by_row` [rows, columns] and `by_column` [columns, rows], each may be null; one read of
// x. inverse_scale = amax / 448. All zeros stay zeros.
void cast_to_float8(Element element, Float8 format, const void* x, const float* amax, int64_t rows,
                    int64_t columns, void* by_row, void* by_column, float* inverse_scale,
                    cudaStream_t stream);

}  // namespace titan::device::cuda::kernels
