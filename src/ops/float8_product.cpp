#include "ops/float8_product.h"

#include <limits>

#include "base/error.h"
#include "ops/cuda_ops.h"
#include "ops/matmul.h"

namespace titan::ops {
namespace {

using at::Tensor;
using cuda::Float8Format;
using cuda::Float8Order;
using torch::autograd::variable_list;

at::ScalarType sum_dtype(const Tensor& x) { return at::promote_types(x.scalar_type(), at::kFloat); }

double largest_number(at::ScalarType format) {
  return format == at::kFloat8_e4m3fn
             ? static_cast<double>(std::numeric_limits<c10::Float8_e4m3fn>::max())
             : static_cast<double>(std::numeric_limits<c10::Float8_e5m2>::max());
}

// x rounded to `format`, in the dtype of sums. A scale for each line of numbers along dimension
// `along`, or one for all.
Tensor rounded(const Tensor& x, at::ScalarType format, std::optional<int64_t> along,
               bool powers_of_two) {
  const double limit = largest_number(format);
  const Tensor wide = x.to(sum_dtype(x));
  const Tensor magnitude = wide.abs();
  const Tensor largest = along ? magnitude.amax(*along, /*keepdim=*/true) : magnitude.amax();
  // A tensor of zeros has a finite scale, too.
  Tensor scale = largest.to(at::kDouble).clamp_min(1e-12).reciprocal().mul(limit).to(at::kFloat);
  if (powers_of_two) scale = scale.log2().floor().exp2();
  return wide.mul(scale).clamp(-limit, limit).to(format).to(wide.scalar_type()).div(scale);
}

// One operand of an emulated product [n, k] x [k, m]: `sum_dimension` is the one of k.
Tensor operand(const Tensor& x, at::ScalarType format, Float8Scaling scaling,
               int64_t sum_dimension) {
  if (scaling == Float8Scaling::kTensorwise) return rounded(x, format, std::nullopt, false);
  return rounded(x, at::kFloat8_e4m3fn, sum_dimension, /*powers_of_two=*/true);
}

}  // namespace

std::string float8_refusal(at::Device device) {
  if (!cuda::has_operators(at::empty({0}, at::TensorOptions(at::kHalf).device(device)))) {
    return "this build has no CUDA kernels of its own";
  }
  return cuda::has_float8(device) ? ""
                                  : "the GPU has no float8 products (compute capability below 8.9)";
}

Float8Product::Float8Product(const Float8Recipe& recipe, const Tensor& x, const Tensor& w)
    : recipe_(recipe) {
  if (recipe.emulate) {
    x_ = x;
    w_ = w;
    return;
  }
  TITAN_CHECK(recipe.scaling == Float8Scaling::kTensorwise, "rowwise float8 without emulation");
  const auto values = cuda::float8_cast(x, Float8Format::kE4M3, Float8Order::kBoth);
  const auto weights = cuda::float8_cast(w, Float8Format::kE4M3, Float8Order::kBoth);
  x_ = values.by_column;
  w_ = weights.by_column;
  x_scale_ = values.scale;
  w_scale_ = weights.scale;
  x_rows_ = values.by_row;
  w_rows_ = weights.by_row;
}

Float8Product::Float8Product(const Float8Recipe& recipe, const variable_list& saved, size_t first)
    : recipe_(recipe),
      x_(saved[first]),
      w_(saved[first + 1]),
      x_scale_(saved[first + 2]),
      w_scale_(saved[first + 3]) {}

void Float8Product::save(variable_list& list) const {
  list.insert(list.end(), {x_, w_, x_scale_, w_scale_});
}

Tensor Float8Product::compute(at::ScalarType dtype, const std::optional<Tensor>& added) const {
  if (!recipe_.emulate) {
    return cuda::float8_matmul(x_rows_, x_scale_, w_rows_, w_scale_, added, dtype,
                               /*fast_sums=*/true);
  }
  const Tensor y = matrix_product(operand(x_, at::kFloat8_e4m3fn, recipe_.scaling, 1),
                                  operand(w_, at::kFloat8_e4m3fn, recipe_.scaling, 1).t());
  return (added ? y.add(*added) : y).to(dtype);
}

Float8Product::Incoming Float8Product::incoming(const Tensor& dy) const {
  if (recipe_.emulate) return {.wide = dy};
  const auto d = cuda::float8_cast(dy, Float8Format::kE5M2, Float8Order::kBoth);
  return {.wide = dy, .by_row = d.by_row, .by_column = d.by_column, .scale = d.scale};
}

Tensor Float8Product::input_gradient(const Incoming& dy) const {
  if (!recipe_.emulate) {
    return cuda::float8_matmul(dy.by_row, dy.scale, w_, w_scale_, std::nullopt,
                               dy.wide.scalar_type(), /*fast_sums=*/false);
  }
  const bool one_scale = recipe_.scaling != Float8Scaling::kRowwise;
  const Tensor w =
      rounded(w_, at::kFloat8_e4m3fn, one_scale ? std::nullopt : std::optional<int64_t>(0),
              /*powers_of_two=*/recipe_.scaling != Float8Scaling::kTensorwise);
  return matrix_product(operand(dy.wide, at::kFloat8_e5m2, recipe_.scaling, 1), w)
      .to(dy.wide.scalar_type());
}

Tensor Float8Product::weight_gradient(const Incoming& dy, at::ScalarType dtype) const {
  if (!recipe_.emulate) {
    return cuda::float8_matmul(dy.by_column, dy.scale, x_, x_scale_, std::nullopt, dtype,
                               /*fast_sums=*/false);
  }
  if (recipe_.scaling == Float8Scaling::kRowwiseWithWideWeightGradient) {
    return matrix_product(dy.wide.t(), x_).to(dtype);
  }
  return matrix_product(operand(dy.wide, at::kFloat8_e5m2, recipe_.scaling, 0).t(),
                        operand(x_, at::kFloat8_e4m3fn, recipe_.scaling, 0))
      .to(dtype);
}

OutputProduct::OutputProduct(const Tensor& x, const Tensor& w,
                             const std::optional<Float8Recipe>& recipe)
    : x_(x), w_(w) {
  if (recipe) float8_.emplace(*recipe, x, w);
}

Tensor OutputProduct::compute(at::ScalarType dtype) const {
  return float8_ ? float8_->compute(x_.scalar_type()).to(dtype)
                 : matrix_product(x_, w_.t()).to(dtype);
}

Tensor OutputProduct::input_gradient(const Tensor& dy) const {
  return float8_ ? float8_->input_gradient(float8_->incoming(dy)) : matrix_product(dy, w_);
}

Tensor OutputProduct::weight_gradient(const Tensor& dy) const {
  return float8_ ? float8_->weight_gradient(float8_->incoming(dy), dy.scalar_type())
                 : matrix_product(dy.t(), x_);
}

}  // namespace titan::ops
