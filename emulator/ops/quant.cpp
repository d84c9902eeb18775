// Quantisation. MX: blocks of 32 along an axis share a power of two as scale (OCP microscaling),
// elements are float8. The scales lie in pairs: their tensor has the input's shape with the axis
// halved again and a last dim of 2.
#include <ATen/ATen.h>

#include "ops/operator.h"

using namespace cannemu::ops;

namespace {

struct Float8 {
  int greatest_exponent;
  double greatest;
};

Float8 float8(ScalarType type) {
  if (type == at::kFloat8_e4m3fn) return {8, 448};
  TORCH_CHECK(type == at::kFloat8_e5m2, "MX elements of ", type, " are not emulated");
  return {15, 57344};
}

constexpr int kBias = 127;  // of the 8-bit exponent that a scale is

// The axis last and padded with zeros to whole pairs of blocks: [..., pairs, 2, block].
Tensor in_blocks(const Tensor& x, int64_t axis, int64_t block) {
  Tensor last = x.to(at::kFloat).movedim(axis, -1);
  const int64_t length = last.size(-1), pair = 2 * block, whole = (length + pair - 1) / pair * pair;
  if (whole > length) last = at::constant_pad_nd(last, {0, whole - length});
  return last.unflatten(-1, {-1, 2, block});
}

Tensor bytes(const Tensor& x) { return x.view(at::kByte); }

void dynamic_mx_quant(const Tensor& x, int64_t axis, const Text& rounding, int64_t block,
                      int64_t algorithm, const Tensor& y, const Tensor& scales) {
  TORCH_CHECK(algorithm == 0 && rounding == "rint", "this form of MX quantisation is not emulated");
  const Float8 element = float8(y.scalar_type());
  if (axis < 0) axis += x.dim();
  const Tensor blocks = in_blocks(x, axis, block);
  const Tensor greatest = blocks.abs().amax(-1);
  // floor(log2) by the float's own exponent; a block of zeros takes the smallest scale.
  const Tensor exponent =
      std::get<1>(at::frexp(greatest)).to(at::kLong) - 1 - element.greatest_exponent;
  const Tensor kept = exponent.masked_fill(greatest.eq(0), -kBias).clamp(-kBias, kBias);
  const Tensor scale = at::ldexp(at::ones({}), kept);
  const Tensor quotient = (blocks / scale.unsqueeze(-1)).clamp(-element.greatest, element.greatest);
  const Tensor whole = quotient.flatten(-3).slice(-1, 0, x.size(axis)).movedim(-1, axis);
  y.copy_(whole);
  // [..., pairs, 2], the pairs back at the axis.
  bytes(scales).copy_((kept + kBias).movedim(-2, axis));
}

// The factor of each element along `axis` from scales as above.
Tensor spread(const Tensor& scales, int64_t axis, int64_t length, int64_t block) {
  const Tensor exponents = bytes(scales).to(at::kLong).movedim(axis, -2).flatten(-2) - kBias;
  const Tensor each =
      at::ldexp(at::ones({}), exponents).repeat_interleave(block, -1).slice(-1, 0, length);
  return each.movedim(-1, axis);
}

}  // namespace

ACLNN(DynamicMxQuant, Tensor x, int64_t axis, Text rounding, ScalarType, int64_t block,
      int64_t algorithm, Tensor y, Tensor scales) {
  dynamic_mx_quant(x, axis, rounding, block, algorithm, y, scales);
}

ACLNN(DynamicMxQuantV2, Tensor x, int64_t axis, Text rounding, ScalarType, int64_t block,
      int64_t algorithm, double, Tensor y, Tensor scales) {
  dynamic_mx_quant(x, axis, rounding, block, algorithm, y, scales);
}

// int8, one scale for each row.
ACLNN(DynamicQuantV2, Tensor x, Tensor smooth, Tensor groups, ScalarType, Tensor y, Tensor scale,
      Tensor offset) {
  constexpr double kGreatest = 127;
  TORCH_CHECK(y.scalar_type() == at::kChar && !present(groups) && !present(offset),
              "dynamic quantisation to ", y.scalar_type(), " is not emulated");
  const Tensor f = present(smooth) ? x.to(at::kFloat) * smooth.to(at::kFloat) : x.to(at::kFloat);
  const Tensor row = f.abs().amax(-1) / kGreatest;
  put(y, at::round(f / row.unsqueeze(-1)).clamp(-kGreatest - 1, kGreatest));
  put(scale, row);
}

// x1 [M, K] @ x2 [K, N] of MX operands with their scales [M, K/64, 2] and [K/64, N, 2].
ACLNN(QuantMatmulV5, Tensor x1, Tensor x2, Tensor x1_scale, Tensor x2_scale, Tensor y_scale, Tensor,
      Tensor, Tensor, Tensor bias, bool transpose1, bool transpose2, int64_t, Tensor out) {
  constexpr int64_t kBlock = 32;
  TORCH_CHECK(x1_scale.defined() && x1_scale.scalar_type() == at::kFloat8_e8m0fnu &&
                  x2_scale.defined() && x2_scale.scalar_type() == at::kFloat8_e8m0fnu &&
                  !present(y_scale) && !transpose1,
              "this form of quantised product is not emulated");
  const int64_t k = x1.size(-1);
  const Tensor a = x1.to(at::kFloat) * spread(x1_scale, x1.dim() - 1, k, kBlock);
  const int64_t summed = transpose2 ? x2.dim() - 1 : x2.dim() - 2;
  Tensor b = x2.to(at::kFloat) * spread(x2_scale, summed, k, kBlock);
  if (transpose2) b = b.transpose(-1, -2);
  const Tensor product = at::matmul(a, b);
  put(out, present(bias) ? product + bias.to(at::kFloat) : product);
}
