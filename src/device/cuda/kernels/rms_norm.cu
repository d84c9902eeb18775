#include "device/cuda/kernels/vector.cuh"

namespace titan::device::cuda::kernels {
namespace {

// A row is shared by kRowThreads threads with kVectors vectors each; narrow rows share a block.
template <int kRowThreads>
inline constexpr int kRowsPerBlock = kRowThreads < 128 ? 128 / kRowThreads : 1;
template <int kRowThreads>
inline constexpr int kBlock = kRowThreads* kRowsPerBlock<kRowThreads>;

template <class T, int kRowThreads, int kVectors>
__global__ void __launch_bounds__(kBlock<kRowThreads>)
    norm_forward(const T* __restrict__ x, const T* __restrict__ weight, float eps, int64_t rows,
                 int vectors, T* __restrict__ y, float* __restrict__ inverse_rms) {
  __shared__ float space[kBlock<kRowThreads> / 32];
  const int lane = static_cast<int>(threadIdx.x) % kRowThreads;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock<kRowThreads> +
                      static_cast<int64_t>(threadIdx.x) / kRowThreads;
  if (row >= rows) return;  // whole warps, and only where a row is a warp
  const T* const from = x + row * vectors * kPerVector<T>;
  T* const to = y + row * vectors * kPerVector<T>;
  Raw<T> held[kVectors];
  float squares = 0;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int at = v * kRowThreads + lane;
    if (at < vectors) held[v] = load(from, at);
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (v * kRowThreads + lane >= vectors) continue;
    const Values<T> values(held[v]);
#pragma unroll
    for (const float value : values.at) squares += value * value;
  }
  squares = sum_of_row<kRowThreads>(squares, space);
  const float inverse = rsqrtf(squares / static_cast<float>(vectors * kPerVector<T>) + eps);
  if (lane == 0) inverse_rms[row] = inverse;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int at = v * kRowThreads + lane;
    if (at >= vectors) continue;
    Values<T> values(held[v]);
    const Values<T> scale(load(weight, at));
#pragma unroll
    for (int i = 0; i < kPerVector<T>; ++i) values.at[i] = values.at[i] * inverse * scale.at[i];
    store(to, at, values);
  }
}

// With n = x * inverse_rms and g = dy * weight: dx = inverse_rms * (g - n * mean(g n)) + residual,
// dw = the sum of dy * n over rows. A thread keeps its columns of dw over all rows of its block;
// the next row is on its way while one is worked on.
template <class T, int kRowThreads, int kVectors>
__global__ void __launch_bounds__(kBlock<kRowThreads>)
    norm_backward(const T* __restrict__ dy, const T* __restrict__ x, const T* __restrict__ weight,
                  const float* __restrict__ inverse_rms, const T* __restrict__ residual,
                  int64_t rows, int vectors, T* __restrict__ dx, float* __restrict__ partial) {
  constexpr int kN = kPerVector<T>;
  __shared__ float space[2][kBlock<kRowThreads> / 32];
  const int lane = static_cast<int>(threadIdx.x) % kRowThreads;
  const int64_t part = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock<kRowThreads> +
                       static_cast<int64_t>(threadIdx.x) / kRowThreads;
  const int64_t parts = static_cast<int64_t>(gridDim.x) * kRowsPerBlock<kRowThreads>;
  const float mean_of = 1.0f / static_cast<float>(vectors * kN);

  struct Row {
    Raw<T> dy[kVectors], x[kVectors], residual[kVectors];
    float inverse;
  };
  const auto fetch = [&](Row& row, int64_t number) {
    row.inverse = inverse_rms[number];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int at = v * kRowThreads + lane;
      if (at >= vectors) continue;
      row.dy[v] = load(dy, number * vectors + at);
      row.x[v] = load(x, number * vectors + at);
      if (residual) row.residual[v] = load(residual, number * vectors + at);
    }
  };

  float dw[kVectors][kN] = {};
  Row now, next;
  if (part < rows) fetch(now, part);
  int turn = 0;
  for (int64_t row = part; row < rows; row += parts) {
    if (row + parts < rows) fetch(next, row + parts);
    float dot = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int at = v * kRowThreads + lane;
      if (at >= vectors) continue;
      const Values<T> grad(now.dy[v]), value(now.x[v]), scale(load(weight, at));
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        const float normed = value.at[i] * now.inverse;
        dw[v][i] += grad.at[i] * normed;
        dot += grad.at[i] * scale.at[i] * normed;
      }
    }
    const float mean = sum_of_row<kRowThreads>(dot, space[turn]) * mean_of;
    turn ^= 1;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int at = v * kRowThreads + lane;
      if (at >= vectors) continue;
      const Values<T> grad(now.dy[v]), value(now.x[v]), scale(load(weight, at));
      Values<T> result;
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        result.at[i] = now.inverse * (grad.at[i] * scale.at[i] - value.at[i] * now.inverse * mean);
      }
      if (residual) {
        const Values<T> added(now.residual[v]);
#pragma unroll
        for (int i = 0; i < kN; ++i) result.at[i] += added.at[i];
      }
      store(dx, row * vectors + at, result);
    }
    now = next;
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int at = v * kRowThreads + lane;
    if (at >= vectors) continue;
#pragma unroll
    for (int i = 0; i < kN; ++i) partial[(part * vectors + at) * kN + i] = dw[v][i];
  }
}

constexpr int kColumns = 32, kRowGroups = 16;

// The columns of `partial`, summed in a fixed order.
template <class T>
__global__ void sum_columns(const float* __restrict__ partial, int64_t parts, int64_t dim,
                            T* __restrict__ dw) {
  __shared__ float sums[kRowGroups][kColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  float sum = 0;
  if (column < dim) {
    for (int64_t part = threadIdx.y; part < parts; part += kRowGroups)
      sum += partial[part * dim + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= dim) return;
#pragma unroll
  for (int group = 1; group < kRowGroups; ++group) sum += sums[group][threadIdx.x];
  dw[column] = narrow<T>(sum);
}

// Calls body(row threads, vectors per thread) for rows of `vectors` vectors.
template <class Body>
void with_shape(int64_t vectors, Body&& body) {
  using std::integral_constant;
  const auto with = [&](auto threads, auto per_thread) { body(threads, per_thread); };
  using One = integral_constant<int, 1>;
  using Two = integral_constant<int, 2>;
  using Four = integral_constant<int, 4>;
  if (vectors <= 32) return with(integral_constant<int, 32>{}, One{});
  if (vectors <= 64) return with(integral_constant<int, 32>{}, Two{});
  if (vectors <= 128) return with(integral_constant<int, 128>{}, One{});
  if (vectors <= 256) return with(integral_constant<int, 128>{}, Two{});
  if (vectors <= 512) return with(integral_constant<int, 256>{}, Two{});
  if (vectors <= 1024) return with(integral_constant<int, 512>{}, Two{});
  return with(integral_constant<int, 512>{}, Four{});
}

unsigned backward_blocks(int64_t vectors, int64_t rows) {
  unsigned blocks = 0;
  with_shape(vectors, [&](auto threads, auto) {
    constexpr int kThreads = decltype(threads)::value;
    // Enough blocks to fill the largest GPUs of today four times, few enough that the parts of dw
    // stay small.
    const unsigned most = kThreads <= 128 ? 528 : kThreads == 256 ? 264 : 132;
    blocks = std::min(most, blocks_for(rows, kRowsPerBlock<kThreads>));
  });
  return blocks;
}

}  // namespace

bool rms_norm_serves(Element element, int64_t dim) {
  const int64_t per_vector = elements_per_vector(element);
  return dim > 0 && dim % per_vector == 0 && dim / per_vector <= 2048;
}

void rms_norm(Element element, const void* x, const void* weight, double eps, int64_t rows,
              int64_t dim, void* y, float* inverse_rms, cudaStream_t stream) {
  with_element(element, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t vectors = dim / kPerVector<T>;
    with_shape(vectors, [&](auto threads, auto per_thread) {
      constexpr int kThreads = decltype(threads)::value;
      norm_forward<T, kThreads, decltype(per_thread)::value>
          <<<blocks_for(rows, kRowsPerBlock<kThreads>), kBlock<kThreads>, 0, stream>>>(
              static_cast<const T*>(x), static_cast<const T*>(weight), static_cast<float>(eps),
              rows, static_cast<int>(vectors), static_cast<T*>(y), inverse_rms);
    });
  });
}

int64_t rms_norm_parts(Element element, int64_t rows, int64_t dim) {
  const int64_t vectors = dim / elements_per_vector(element);
  int64_t parts = 0;
  with_shape(vectors, [&](auto threads, auto) {
    parts = int64_t{backward_blocks(vectors, rows)} * kRowsPerBlock<decltype(threads)::value>;
  });
  return parts;
}

void rms_norm_backward(Element element, const void* dy, const void* x, const void* weight,
                       const float* inverse_rms, const void* residual, int64_t rows, int64_t dim,
                       void* dx, float* partial, void* dw, cudaStream_t stream) {
  with_element(element, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t vectors = dim / kPerVector<T>;
    with_shape(vectors, [&](auto threads, auto per_thread) {
      constexpr int kThreads = decltype(threads)::value;
      norm_backward<T, kThreads, decltype(per_thread)::value>
          <<<backward_blocks(vectors, rows), kBlock<kThreads>, 0, stream>>>(
              static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<const T*>(weight),
              inverse_rms, static_cast<const T*>(residual), rows, static_cast<int>(vectors),
              static_cast<T*>(dx), partial);
    });
    sum_columns<T><<<blocks_for(dim, kColumns), dim3(kColumns, kRowGroups), 0, stream>>>(
        partial, rms_norm_parts(element, rows, dim), dim, static_cast<T*>(dw));
  });
}

}  // namespace titan::device::cuda::kernels
