// 16 bytes of elements as float32 values, and sums over warps and blocks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "device/cuda/kernels/launch.h"

namespace titan::device::cuda::kernels {

template <class T>
inline constexpr int kPerVector = 16 / sizeof(T);

// As it lies in memory.
template <class T>
struct alignas(16) Raw {
  T at[kPerVector<T>];
};

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }

template <class T>
__device__ __forceinline__ T narrow(float x);
template <>
__device__ __forceinline__ float narrow<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ __forceinline__ __half narrow<__half>(float x) {
  return __float2half_rn(x);
}

template <class T>
struct Values {
  float at[kPerVector<T>];

  Values() = default;
  __device__ __forceinline__ explicit Values(const Raw<T>& raw) {
#pragma unroll
    for (int i = 0; i < kPerVector<T>; ++i) at[i] = widen(raw.at[i]);
  }
  __device__ __forceinline__ Raw<T> raw() const {
    Raw<T> result;
#pragma unroll
    for (int i = 0; i < kPerVector<T>; ++i) result.at[i] = narrow<T>(at[i]);
    return result;
  }
};

template <class T>
__device__ __forceinline__ Raw<T> load(const T* base, int64_t vector) {
  const uint4 bits = reinterpret_cast<const uint4*>(base)[vector];
  return *reinterpret_cast<const Raw<T>*>(&bits);
}

template <class T>
__device__ __forceinline__ void store(T* base, int64_t vector, const Values<T>& values) {
  const Raw<T> raw = values.raw();
  reinterpret_cast<uint4*>(base)[vector] = *reinterpret_cast<const uint4*>(&raw);
}

__device__ __forceinline__ float sum_of_warp(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

// Sum over the kThreads threads that share a row; they are whole warps beside each other. `space`
// holds a float per warp of the block and is not written again before all have read: callers
// alternate two of them.
template <int kThreads>
__device__ __forceinline__ float sum_of_row(float x, float* space) {
  x = sum_of_warp(x);
  if constexpr (kThreads == 32) return x;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) space[warp] = x;
  __syncthreads();
  constexpr int kWarps = kThreads / 32;
  const int first = warp / kWarps * kWarps;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) sum += space[first + i];
  return sum;
}

inline unsigned blocks_for(int64_t work, int64_t per_block) {
  return static_cast<unsigned>((work + per_block - 1) / per_block);
}

// Calls body with a null pointer of the element's type.
template <class Body>
void with_element(Element element, Body&& body) {
  switch (element) {
    case Element::kFloat32:
      return body(static_cast<float*>(nullptr));
    case Element::kBFloat16:
      return body(static_cast<__nv_bfloat16*>(nullptr));
    case Element::kFloat16:
      return body(static_cast<__half*>(nullptr));
  }
}

inline int64_t elements_per_vector(Element element) { return element == Element::kFloat32 ? 4 : 8; }

}  // namespace titan::device::cuda::kernels
