// What depends on compiler and processor, in one place.
#pragma once

// Compiles a function once per vector width and picks at load time, so that one binary is fast on
// every x86-64. Other processors' baselines already have their vectors (aarch64: NEON).
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if __GNUC__ >= 12
#define TITAN_VECTOR_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else  // older compilers know no architecture levels: their 256-bit form has no fused multiply-add
#define TITAN_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#else
#define TITAN_VECTOR_CLONES
#endif

namespace titan {

// True when this processor multiplies bfloat16 in hardware; elsewhere float32 is faster and
// exacter.
inline bool cpu_multiplies_bfloat16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

}  // namespace titan
