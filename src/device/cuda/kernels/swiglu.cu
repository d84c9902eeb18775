#include "device/cuda/kernels/vector.cuh"

namespace titan::device::cuda::kernels {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }

template <class T>
__global__ void __launch_bounds__(kThreads)
    swiglu_forward(const T* __restrict__ gate_up, int64_t rows, int vectors, T* __restrict__ y) {
  const int64_t work = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (work >= rows * vectors) return;
  const int64_t row = work / vectors, at = work % vectors;
  const Values<T> gate(load(gate_up, 2 * row * vectors + at));
  const Values<T> up(load(gate_up, (2 * row + 1) * vectors + at));
  Values<T> result;
#pragma unroll
  for (int i = 0; i < kPerVector<T>; ++i)
    result.at[i] = gate.at[i] * sigmoid(gate.at[i]) * up.at[i];
  store(y, work, result);
}

// With s = sigmoid(gate): d silu / d gate = s (1 + gate (1 - s)).
template <class T>
__global__ void __launch_bounds__(kThreads)
    swiglu_backward_rows(const T* __restrict__ dy, const T* __restrict__ gate_up, int64_t rows,
                         int vectors, T* __restrict__ d_gate_up) {
  const int64_t work = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (work >= rows * vectors) return;
  const int64_t row = work / vectors, at = work % vectors;
  const int64_t gate_at = 2 * row * vectors + at, up_at = gate_at + vectors;
  const Values<T> gate(load(gate_up, gate_at)), up(load(gate_up, up_at)), grad(load(dy, work));
  Values<T> d_gate, d_up;
#pragma unroll
  for (int i = 0; i < kPerVector<T>; ++i) {
    const float s = sigmoid(gate.at[i]), silu = gate.at[i] * s;
    d_up.at[i] = grad.at[i] * silu;
    d_gate.at[i] = grad.at[i] * up.at[i] * (s + silu * (1.0f - s));
  }
  store(d_gate_up, gate_at, d_gate);
  store(d_gate_up, up_at, d_up);
}

}  // namespace

void swiglu(Element element, const void* gate_up, int64_t rows, int64_t width, void* y,
            cudaStream_t stream) {
  with_element(element, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t vectors = width / kPerVector<T>;
    swiglu_forward<T><<<blocks_for(rows * vectors, kThreads), kThreads, 0, stream>>>(
        static_cast<const T*>(gate_up), rows, static_cast<int>(vectors), static_cast<T*>(y));
  });
}

void swiglu_backward(Element element, const void* dy, const void* gate_up, int64_t rows,
                     int64_t width, void* d_gate_up, cudaStream_t stream) {
  with_element(element, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t vectors = width / kPerVector<T>;
    swiglu_backward_rows<T><<<blocks_for(rows * vectors, kThreads), kThreads, 0, stream>>>(
        static_cast<const T*>(dy), static_cast<const T*>(gate_up), rows, static_cast<int>(vectors),
        static_cast<T*>(d_gate_up));
  });
}

}  // namespace titan::device::cuda::kernels
