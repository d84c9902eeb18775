#include "device/cuda/kernels/vector.cuh"

namespace titan::device::cuda::kernels {
namespace {

constexpr int kThreads = 256;

// Turns two vectors of elements by one vector's worth of angles each way. Interleaved: `first`
// alone, by the angles of its pairs; else element i of `first` with element i of `second`.
template <class T, bool kInterleaved>
__device__ __forceinline__ void turn(Values<T>& first, Values<T>& second, const float* cos,
                                     const float* sin, float sign) {
  constexpr int kN = kPerVector<T>;
  if constexpr (kInterleaved) {
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) {
      const float c = cos[i], s = sin[i] * sign;
      const float a = first.at[2 * i], b = first.at[2 * i + 1];
      first.at[2 * i] = a * c - b * s;
      first.at[2 * i + 1] = a * s + b * c;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const float c = cos[i], s = sin[i] * sign;
      const float a = first.at[i], b = second.at[i];
      first.at[i] = a * c - b * s;
      second.at[i] = a * s + b * c;
    }
  }
}

// A row in units of work: interleaved a vector, else a vector and its partner half a head later.
struct Units {
  int per_head;     // units in a head
  int vectors;      // vectors in a head
  int turned;       // units of queries and keys in a row
  int all;          // with the values
  int row_vectors;  // vectors in a packed row
  int angles;       // in a row of the tables
};

template <class T, bool kInterleaved>
Units units_of(const Heads& heads) {
  const int vectors = static_cast<int>(heads.head_dim) / kPerVector<T>;
  const int per_head = kInterleaved ? vectors : vectors / 2;
  const int turned = static_cast<int>(heads.queries + heads.keys) * per_head;
  return {per_head,
          vectors,
          turned,
          turned + static_cast<int>(heads.keys) * per_head,
          static_cast<int>(heads.width()) / kPerVector<T>,
          static_cast<int>(heads.head_dim) / 2};
}

template <class T, bool kInterleaved>
inline constexpr int kAnglesPerUnit = kInterleaved ? kPerVector<T> / 2 : kPerVector<T>;

template <class T, bool kInterleaved>
__global__ void __launch_bounds__(kThreads)
    rotate(T* __restrict__ packed, const float* __restrict__ cos, const float* __restrict__ sin,
           int64_t rows, int64_t table_rows, Units units) {
  const int64_t work = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t row = work / units.turned;
  if (row >= rows) return;
  const int unit = static_cast<int>(work % units.turned);
  const int head = unit / units.per_head, in_head = unit % units.per_head;
  const int64_t first = row * units.row_vectors + head * units.vectors + in_head;
  const int64_t second = first + units.vectors / 2;
  const int64_t angle = row % table_rows * units.angles + in_head * kAnglesPerUnit<T, kInterleaved>;
  Values<T> a(load(packed, first)), b = a;
  if constexpr (!kInterleaved) b = Values<T>(load(packed, second));
  turn<T, kInterleaved>(a, b, cos + angle, sin + angle, 1);
  store(packed, first, a);
  if constexpr (!kInterleaved) store(packed, second, b);
}

template <class T, bool kInterleaved>
__global__ void __launch_bounds__(kThreads)
    rotate_back(const T* __restrict__ dq, const T* __restrict__ dk, const T* __restrict__ dv,
                const float* __restrict__ cos, const float* __restrict__ sin, int64_t rows,
                int64_t table_rows, Units units, int query_heads, int key_heads,
                T* __restrict__ packed) {
  const int64_t work = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t row = work / units.all;
  if (row >= rows) return;
  const int unit = static_cast<int>(work % units.all);
  const int head = unit / units.per_head, in_head = unit % units.per_head;
  const T* from = dq;
  int64_t source = row * query_heads + head;
  if (head >= query_heads) {
    const int key = head - query_heads;
    from = key < key_heads ? dk : dv;
    source = row * key_heads + key % key_heads;
  }
  const int64_t first = source * units.vectors + in_head;
  const int64_t to = row * units.row_vectors + head * units.vectors + in_head;
  const int half = units.vectors / 2;
  Values<T> a(load(from, first)), b = a;
  if constexpr (!kInterleaved) b = Values<T>(load(from, first + half));
  if (unit < units.turned) {
    const int64_t angle =
        row % table_rows * units.angles + in_head * kAnglesPerUnit<T, kInterleaved>;
    turn<T, kInterleaved>(a, b, cos + angle, sin + angle, -1);
  }
  store(packed, to, a);
  if constexpr (!kInterleaved) store(packed, to + half, b);
}

// Calls body(type, interleaved).
template <class Body>
void with_kind(Element element, bool interleaved, Body&& body) {
  with_element(element, [&](auto* type) {
    if (interleaved) {
      body(type, std::true_type{});
    } else {
      body(type, std::false_type{});
    }
  });
}

}  // namespace

bool rope_serves(Element element, const Heads& heads) {
  return heads.head_dim > 0 && heads.head_dim % (2 * elements_per_vector(element)) == 0;
}

void rope(Element element, void* packed, const float* cos, const float* sin, int64_t rows,
          int64_t table_rows, const Heads& heads, cudaStream_t stream) {
  with_kind(element, heads.interleaved, [&](auto* type, auto interleaved) {
    using T = std::remove_pointer_t<decltype(type)>;
    constexpr bool kInterleaved = decltype(interleaved)::value;
    const Units units = units_of<T, kInterleaved>(heads);
    rotate<T, kInterleaved><<<blocks_for(rows * units.turned, kThreads), kThreads, 0, stream>>>(
        static_cast<T*>(packed), cos, sin, rows, table_rows, units);
  });
}

void rope_backward(Element element, const void* dq, const void* dk, const void* dv,
                   const float* cos, const float* sin, int64_t rows, int64_t table_rows,
                   const Heads& heads, void* packed, cudaStream_t stream) {
  with_kind(element, heads.interleaved, [&](auto* type, auto interleaved) {
    using T = std::remove_pointer_t<decltype(type)>;
    constexpr bool kInterleaved = decltype(interleaved)::value;
    const Units units = units_of<T, kInterleaved>(heads);
    rotate_back<T, kInterleaved><<<blocks_for(rows * units.all, kThreads), kThreads, 0, stream>>>(
        static_cast<const T*>(dq), static_cast<const T*>(dk), static_cast<const T*>(dv), cos, sin,
        rows, table_rows, units, static_cast<int>(heads.queries), static_cast<int>(heads.keys),
        static_cast<T*>(packed));
  });
}

}  // namespace titan::device::cuda::kernels
