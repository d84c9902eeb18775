// Matrix products by cuBLASLt: with a matrix added, summed into float32, from strided views.
#pragma once

#include <ATen/ATen.h>
#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace titan::device::cuda {

// Finds an algorithm for each kind of product once. Used from any thread.
class Matmul {
 public:
  Matmul();
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  // out [m, n] = a [m, k] b [k, n] (+ added [m, n]) on the current stream. a and b are float32,
  // bfloat16 or float16 of one dtype with a stride of 1 in one of the two dimensions; out and added
  // are row-major, of that dtype or float32. `added` may be `out` itself. Sums are float32.
  // float8 operands need their scales; on Hopper a is row-major, b a transposed view.
  struct Float8Scales {
    const float *a,
        *b;          // on the device, multiples of 16 bytes: the products are multiplied by both
    bool fast_sums;  // sums in fewer bits than float32
  };
  void product(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& added,
               at::Tensor& out, const std::optional<Float8Scales>& scales = std::nullopt);

 private:
  struct Shape {
    int64_t m, n, k, lda, ldb, ldc, ldd;
    bool a_transposed, b_transposed, adds;
    at::ScalarType in, in_b, out;
    bool tf32, fast_sums;
    uint32_t align_a, align_b, align_c, align_d;  // bytes
    auto operator<=>(const Shape&) const = default;
  };
  struct Plan;
  const Plan& plan_for(const Shape& shape);  // REQUIRES mutex_ is held
  static void set_scales(const Plan& plan, const Float8Scales& scales);

  std::mutex mutex_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Shape, std::unique_ptr<Plan>> plans_;
};

}  // namespace titan::device::cuda
