// The products of a linear layer in float8 (Micikevicius et al. 2022, arXiv 2209.05433): operands
// are scaled so that their largest magnitude meets the largest number of the format, rounded to it,
// and multiplied with sums in float32.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include <optional>
#include <string>

namespace titan::ops {

enum class Float8Scaling {
  kTensorwise,  // one scale for a tensor; values and weights in E4M3, gradients in E5M2
  kRowwise,     // of each product a scale for every row of the first operand and every column of
                // the second; powers of two; all in E4M3
  kRowwiseWithWideWeightGradient,  // the same, but the gradient of the weight is no float8 product
                                   // and the weight has one scale where it makes the input's
};

struct Float8Recipe {
  Float8Scaling scaling = Float8Scaling::kTensorwise;
  // Operands are rounded to float8 and multiplied in float32 (float64 for float64): any device.
  // Without it the GPU's float8 products are used, which is built for kTensorwise.
  bool emulate = false;

  bool operator==(const Float8Recipe&) const = default;
};

// Why this machine has no float8 products of its own; empty: it has. `device` is a GPU.
std::string float8_refusal(at::Device device);

// y = x w^T of rows x [n, in] and w [out, in], with what its gradients need. Scales are of the rows
// and weights that are given: a rank of a layout has its own.
class Float8Product {
 public:
  // Tensors that save() adds.
  static constexpr size_t kKept = 4;

  Float8Product(const Float8Recipe& recipe, const at::Tensor& x, const at::Tensor& w);
  // From what was saved: for the gradients only.
  Float8Product(const Float8Recipe& recipe, const torch::autograd::variable_list& saved,
                size_t first);
  void save(torch::autograd::variable_list& list) const;

  // [n, out] (+ added)
  at::Tensor compute(at::ScalarType dtype,
                     const std::optional<at::Tensor>& added = std::nullopt) const;

  // The gradient of y [n, out] as the two products below take it.
  struct Incoming {
    at::Tensor wide;
    at::Tensor by_row, by_column, scale;  // not emulated
  };
  Incoming incoming(const at::Tensor& dy) const;
  at::Tensor input_gradient(const Incoming& dy) const;                         // [n, in]
  at::Tensor weight_gradient(const Incoming& dy, at::ScalarType dtype) const;  // [out, in]

 private:
  Float8Recipe recipe_;
  at::Tensor x_, w_;              // emulated: as given; else in float8, transposed
  at::Tensor x_scale_, w_scale_;  // not emulated
  at::Tensor x_rows_, w_rows_;    // not emulated; for compute()
};

// The same in float8 or, without a recipe, in the operands' dtype: for ops that make the gradients
// right away.
class OutputProduct {
 public:
  OutputProduct(const at::Tensor& x, const at::Tensor& w,
                const std::optional<Float8Recipe>& recipe);
  at::Tensor compute(at::ScalarType dtype) const;
  at::Tensor input_gradient(const at::Tensor& dy) const;
  at::Tensor weight_gradient(const at::Tensor& dy) const;

 private:
  at::Tensor x_, w_;
  std::optional<Float8Product> float8_;
};

}  // namespace titan::ops
