// The header of the same name, for a CPU (tests/device/lockstep/lockstep.h).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "lockstep.h"

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define threadIdx ::titan::lockstep::thread_index
#define blockIdx ::titan::lockstep::block_index
#define gridDim ::titan::lockstep::grid_size
#define __syncthreads() ::titan::lockstep::Block::running_block->in_block()

struct float2 {
  float x, y;
};
struct __nv_bfloat16 {
  uint16_t bits;
};

namespace titan::device::cuda::kernels {

inline uint16_t rounded(float x) {  // to nearest, ties to even
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
inline float widened(uint32_t bits) { return std::bit_cast<float>(bits << 16); }

template <class T>
uint32_t pack(float low, float high) {
  return rounded(low) | static_cast<uint32_t>(rounded(high)) << 16;
}
template <class T>
float2 unpack(uint32_t pair) {
  return {widened(pair & 0xffff), widened(pair >> 16)};
}

template <class T>
void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  struct Lane {
    float* c;
    const uint32_t* a;
    uint32_t b[2];
  } mine{c, a, {b0, b1}};
  lockstep::Block::running_block->in_warp(&mine, [](void** lanes) {
    float a16[16][16], b16[16][8];
    const auto at = [&](int l) -> Lane& { return *static_cast<Lane*>(lanes[l]); };
    for (int l = 0; l < 32; ++l) {
      for (int i = 0; i < 4; ++i) {
        const auto pair = unpack<T>(at(l).a[i]);
        a16[l / 4 + i % 2 * 8][l % 4 * 2 + i / 2 * 8] = pair.x;
        a16[l / 4 + i % 2 * 8][l % 4 * 2 + i / 2 * 8 + 1] = pair.y;
      }
      for (int i = 0; i < 2; ++i) {
        const auto pair = unpack<T>(at(l).b[i]);
        b16[l % 4 * 2 + i * 8][l / 4] = pair.x;
        b16[l % 4 * 2 + i * 8 + 1][l / 4] = pair.y;
      }
    }
    for (int l = 0; l < 32; ++l) {
      for (int i = 0; i < 4; ++i) {
        for (int k = 0; k < 16; ++k) {
          at(l).c[i] += a16[l / 4 + i / 2 * 8][k] * b16[k][l % 4 * 2 + i % 2];
        }
      }
    }
  });
}

template <bool kTransposed>
void load_eight_by_eight(uint32_t (&to)[4], const void* row) {
  struct Lane {
    uint32_t* to;
    const uint16_t* row;
  } mine{to, static_cast<const uint16_t*>(row)};
  lockstep::Block::running_block->in_warp(&mine, [](void** lanes) {
    const auto at = [&](int l) -> Lane& { return *static_cast<Lane*>(lanes[l]); };
    for (int l = 0; l < 32; ++l) {
      for (int matrix = 0; matrix < 4; ++matrix) {
        const auto element = [&](int r, int c) -> uint32_t {
          return kTransposed ? at(matrix * 8 + c).row[r] : at(matrix * 8 + r).row[c];
        };
        at(l).to[matrix] = element(l / 4, l % 4 * 2) | element(l / 4, l % 4 * 2 + 1) << 16;
      }
    }
  });
}
inline void load_matrices(uint32_t (&to)[4], const void* row) {
  load_eight_by_eight<false>(to, row);
}
inline void load_matrices_transposed(uint32_t (&to)[4], const void* row) {
  load_eight_by_eight<true>(to, row);
}

template <int kBytes>
void copy_async(void* to, const void* from, bool real) {
  lockstep::Block::running_block->copy({to, from, kBytes, real});
}
inline void end_copy_group() { lockstep::Block::running_block->end_group(); }
template <int kLeft>
void wait_for_copies() {
  lockstep::Block::running_block->wait(kLeft);
}

inline float exp2_fast(float x) { return std::exp2(x); }

inline float shuffle_xor(float x, int lanes) {
  struct Lane {
    float x;
    int lanes;
    float result;
  } mine{x, lanes, 0};
  lockstep::Block::running_block->in_warp(&mine, [](void** all) {
    for (int l = 0; l < 32; ++l) {
      auto* lane = static_cast<Lane*>(all[l]);
      lane->result = static_cast<Lane*>(all[l ^ lane->lanes])->x;
    }
  });
  return mine.result;
}

}  // namespace titan::device::cuda::kernels
