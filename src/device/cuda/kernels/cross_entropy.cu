#include <cmath>

#include "device/cuda/kernels/vector.cuh"

namespace titan::device::cuda::kernels {
namespace {

constexpr float kLog2E = 1.4426950408889634f;

// A running maximum and the sum of exponentials below it (Milakov & Gimelshein 2018, arXiv
// 1805.02867).
struct Softmax {
  float maximum = -INFINITY, sum = 0;

  __device__ __forceinline__ void merge(const Softmax& other) {
    const float most = fmaxf(maximum, other.maximum);
    if (most == -INFINITY) return;
    sum =
        sum * exp2f((maximum - most) * kLog2E) + other.sum * exp2f((other.maximum - most) * kLog2E);
    maximum = most;
  }
  template <int kN>
  __device__ __forceinline__ void add(const float (&values)[kN]) {
    float most = values[0];
#pragma unroll
    for (int i = 1; i < kN; ++i) most = fmaxf(most, values[i]);
    if (most > maximum) {
      sum *= exp2f((maximum - most) * kLog2E);
      maximum = most;
    }
    // The difference first: logits near the largest number must not overflow.
#pragma unroll
    for (const float value : values) sum += exp2f((value - maximum) * kLog2E);
  }
};

__device__ __forceinline__ Softmax over_warp(Softmax mine) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    mine.merge({__shfl_xor_sync(0xffffffffu, mine.maximum, offset),
                __shfl_xor_sync(0xffffffffu, mine.sum, offset)});
  }
  return mine;
}

__device__ __forceinline__ Softmax over_block(Softmax mine, float* maxima, float* sums) {
  mine = over_warp(mine);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == 0) {
    maxima[warp] = mine.maximum;
    sums[warp] = mine.sum;
  }
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / 32;
  Softmax all;
  if (lane < warps) all = {maxima[lane], sums[lane]};
  return over_warp(all);
}

// A block per row: one pass for the softmax, a second, mostly from the cache, for the gradient.
// kStep: elements a thread reads at once, those of a vector or 1.
template <class T, int kStep>
__global__ void __launch_bounds__(1024)
    cross_entropy_rows(T* __restrict__ logits, const int64_t* __restrict__ labels, int64_t ignored,
                       const float* __restrict__ scale, int64_t vocab, float* __restrict__ losses) {
  __shared__ float maxima[32], sums[32];
  const int64_t row = blockIdx.x;
  T* const mine = logits + row * vocab;
  const int64_t label = labels[row];
  const int64_t steps = vocab / kStep;
  const auto read = [&](int64_t step, float(&values)[kStep]) {
    if constexpr (kStep == 1) {
      values[0] = widen(mine[step]);
    } else {
      const Values<T> vector(load(mine, step));
#pragma unroll
      for (int i = 0; i < kStep; ++i) values[i] = vector.at[i];
    }
  };
  const auto write = [&](int64_t step, const float(&values)[kStep]) {
    if constexpr (kStep == 1) {
      mine[step] = narrow<T>(values[0]);
    } else {
      Values<T> vector;
#pragma unroll
      for (int i = 0; i < kStep; ++i) vector.at[i] = values[i];
      store(mine, step, vector);
    }
  };
  float values[kStep];
  if (label == ignored) {
    if (threadIdx.x == 0) losses[row] = 0;
    if (!scale) return;
#pragma unroll
    for (float& value : values) value = 0;
    for (int64_t step = threadIdx.x; step < steps; step += blockDim.x) write(step, values);
    return;
  }
  // A label outside the vocabulary is a bug of the data: no logit is its own, and the loss says so.
  const bool known = label >= 0 && label < vocab;
  const float target = known ? widen(mine[label]) : NAN;
  Softmax partial;
#pragma unroll 4
  for (int64_t step = threadIdx.x; step < steps; step += blockDim.x) {
    read(step, values);
    partial.add(values);
  }
  const Softmax all = over_block(partial, maxima, sums);
  if (threadIdx.x == 0) losses[row] = all.maximum + logf(all.sum) - target;
  if (!scale) return;
  const float factor = *scale;
  const float share = factor / all.sum;
#pragma unroll 4
  for (int64_t step = threadIdx.x; step < steps; step += blockDim.x) {
    read(step, values);
#pragma unroll
    for (float& value : values) value = exp2f((value - all.maximum) * kLog2E) * share;
    if (label / kStep == step) {
      const int place = static_cast<int>(label % kStep);
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
        if (i == place) values[i] -= factor;
      }
    }
    write(step, values);
  }
}

}  // namespace

void cross_entropy(Element element, void* logits, const int64_t* labels, int64_t ignored,
                   const float* scale, int64_t rows, int64_t vocab, float* losses,
                   cudaStream_t stream) {
  with_element(element, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto launch = [&](auto step) {
      constexpr int kStep = decltype(step)::value;
      const int64_t steps = vocab / kStep;
      const unsigned threads =
          steps >= 1024 ? 1024u : static_cast<unsigned>((steps + 31) / 32 * 32);
      cross_entropy_rows<T, kStep><<<static_cast<unsigned>(rows), threads, 0, stream>>>(
          static_cast<T*>(logits), labels, ignored, scale, vocab, losses);
    };
    if (vocab % kPerVector<T> == 0) {
      launch(std::integral_constant<int, kPerVector<T>>{});
    } else {
      launch(std::integral_constant<int, 1>{});
    }
  });
}

}  // namespace titan::device::cuda::kernels
