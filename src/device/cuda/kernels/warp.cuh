// What a warp does as one: matrix instructions (mma.m16n8k16), loads of their operands from shared
// memory (ldmatrix), copies from global into shared memory that run beside the arithmetic
// (cp.async). Compute capability 8.0. Kernels written with these alone run on a CPU, too: the tests
// put another header of this name in front.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace titan::device::cuda::kernels {

// Element pairs as a register holds them: the first in the low half.
template <class T>
__device__ __forceinline__ uint32_t pack(float low, float high) {
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}

template <class T>
__device__ __forceinline__ float2 unpack(uint32_t pair) {
  if constexpr (std::is_same_v<T, __half>) {
    return __half22float2(*reinterpret_cast<const __half2*>(&pair));
  } else {
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
  }
}

// c [16, 8] += a [16, 16] b [16, 8]. Lane l holds of c rows l/4 and l/4 + 8, columns 2 (l%4) and
// the next; of a the same rows, columns 2 (l%4), the next, and both 8 later; of b rows as a's
// columns, column l/4.
template <class T>
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// Four 8 x 8 matrices of 16-bit elements: lane l gives the address of row l%8 of matrix l/8 (16
// bytes in shared memory) and gets of matrix i the pair at row l/4, columns 2 (l%4) and the next.
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], const void* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}
// The same of the transposed matrices.
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&to)[4], const void* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

// kBytes from global to shared memory, zeros where the source is not `real` (its address must be
// one that exists all the same).
template <int kBytes>
__device__ __forceinline__ void copy_async(void* to, const void* from, bool real) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  const int bytes = real ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(from),
                 "r"(bytes));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(address), "l"(from),
                 "n"(kBytes), "r"(bytes));
  }
}
// Copies since the last call are a group.
__device__ __forceinline__ void end_copy_group() { asm volatile("cp.async.commit_group;\n" ::); }
// Waits for all groups of this thread but the last kLeft.
template <int kLeft>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kLeft));
}

// 2^x; 0 for minus infinity.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float shuffle_xor(float x, int lanes) {
  return __shfl_xor_sync(0xffffffffu, x, lanes);
}

}  // namespace titan::device::cuda::kernels
