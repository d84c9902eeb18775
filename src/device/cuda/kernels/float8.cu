#include <cuda_fp8.h>

#include "device/cuda/kernels/vector.cuh"

namespace titan::device::cuda::kernels {
namespace {

constexpr int kMagnitudeThreads = 512, kMagnitudeBlocks = 1056;

// Magnitudes are not negative, so their bits are in the order of their values.
template <class T>
__global__ void __launch_bounds__(kMagnitudeThreads)
    magnitude_of(const T* __restrict__ x, int64_t vectors, float* __restrict__ amax) {
  __shared__ float space[kMagnitudeThreads / 32];
  float largest = 0;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kMagnitudeThreads;
#pragma unroll 4
  for (int64_t v = static_cast<int64_t>(blockIdx.x) * kMagnitudeThreads + threadIdx.x; v < vectors;
       v += stride) {
    const Values<T> values(load(x, v));
#pragma unroll
    for (const float value : values.at) largest = fmaxf(largest, fabsf(value));
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
  if (threadIdx.x % 32 == 0) space[threadIdx.x / 32] = largest;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  largest = threadIdx.x < kMagnitudeThreads / 32 ? space[threadIdx.x] : 0;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
  if (threadIdx.x == 0) atomicMax(reinterpret_cast<int*>(amax), __float_as_int(largest));
}

template <Float8 kFormat>
__device__ __forceinline__ uint8_t to_float8(float x) {
  constexpr auto kKind = kFormat == Float8::kE4M3 ? __NV_E4M3 : __NV_E5M2;
  return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, kKind);
}

template <Float8 kFormat>
inline constexpr float kLargest = kFormat == Float8::kE4M3 ? 448.0f : 57344.0f;

// A block casts a tile of 64 x 64: a thread reads 16 elements of a row, and writes 16 bytes of a
// row and 16 bytes of a column, which it collects from the tile in shared memory. Rows of the tile
// are padded so that reading down a column does not fall on one bank.
constexpr int kTile = 64, kCastThreads = 256, kPadded = kTile + 4;

template <class T, Float8 kFormat>
__global__ void __launch_bounds__(kCastThreads)
    cast_tile(const T* __restrict__ x, const float* __restrict__ amax, int64_t rows,
              int64_t columns, uint8_t* __restrict__ by_row, uint8_t* __restrict__ by_column,
              float* __restrict__ inverse_scale) {
  __shared__ __align__(16) uint8_t tile[kTile][kPadded];
  const float largest = *amax;
  const float scale = largest > 0 ? kLargest<kFormat> / largest : 1.0f;
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
    *inverse_scale = largest > 0 ? largest / kLargest<kFormat> : 1.0f;
  const int row = static_cast<int>(threadIdx.x) / 4,
            column = static_cast<int>(threadIdx.x) % 4 * 16;
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kTile,
                first_column = static_cast<int64_t>(blockIdx.x) * kTile;
  if (first_row + row < rows && first_column + column < columns) {
    const int64_t at = (first_row + row) * columns + first_column + column;
    union {
      uint8_t bytes[16];
      uint32_t words[4];
      uint4 all;
    } cast;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Values<T> values(load(x + at, half));
#pragma unroll
      for (int i = 0; i < 8; ++i)
        cast.bytes[8 * half + i] = to_float8<kFormat>(values.at[i] * scale);
    }
    if (by_row) *reinterpret_cast<uint4*>(by_row + at) = cast.all;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      *reinterpret_cast<uint32_t*>(&tile[row][column + 4 * i]) = cast.words[i];
  }
  if (!by_column) return;
  __syncthreads();
  // Now `row` counts columns of x and `column` rows.
  if (first_column + row < columns && first_row + column < rows) {
    union {
      uint8_t bytes[16];
      uint4 all;
    } cast;
#pragma unroll
    for (int i = 0; i < 16; ++i) cast.bytes[i] = tile[column + i][row];
    *reinterpret_cast<uint4*>(by_column + (first_column + row) * rows + first_row + column) =
        cast.all;
  }
}

template <class Body>
void with_half(Element element, Body&& body) {
  if (element == Element::kBFloat16) return body(static_cast<__nv_bfloat16*>(nullptr));
  body(static_cast<__half*>(nullptr));
}

}  // namespace

void largest_magnitude(Element element, const void* x, int64_t count, float* amax,
                       cudaStream_t stream) {
  cudaMemsetAsync(amax, 0, sizeof *amax, stream);
  with_half(element, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t vectors = count / kPerVector<T>;
    const unsigned blocks =
        std::min<unsigned>(kMagnitudeBlocks, blocks_for(vectors, kMagnitudeThreads));
    magnitude_of<T>
        <<<blocks, kMagnitudeThreads, 0, stream>>>(static_cast<const T*>(x), vectors, amax);
  });
}

void cast_to_float8(Element element, Float8 format, const void* x, const float* amax, int64_t rows,
                    int64_t columns, void* by_row, void* by_column, float* inverse_scale,
                    cudaStream_t stream) {
  const dim3 blocks(blocks_for(columns, kTile), blocks_for(rows, kTile));
  with_half(element, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto launch = [&](auto constant) {
      cast_tile<T, decltype(constant)::value><<<blocks, kCastThreads, 0, stream>>>(
          static_cast<const T*>(x), amax, rows, columns, static_cast<uint8_t*>(by_row),
          static_cast<uint8_t*>(by_column), inverse_scale);
    };
    if (format == Float8::kE4M3) {
      launch(std::integral_constant<Float8, Float8::kE4M3>{});
    } else {
      launch(std::integral_constant<Float8, Float8::kE5M2>{});
    }
  });
}

}  // namespace titan::device::cuda::kernels
