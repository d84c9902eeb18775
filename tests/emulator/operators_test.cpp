// Each operator that ATen's own functions reach, through the adapter.
#include "emulator/rows.h"

namespace npu_test {
namespace {

const std::vector<Row>& pointwise() {
  static const std::vector<Row> rows = {
      {"aclnnAbs", F(x[0].abs()), {R({3, 5})}},
      {"aclnnNeg", F(x[0].neg()), {R({3, 5})}},
      {"aclnnExp", F(x[0].exp()), {R({3, 5})}},
      {"aclnnInplaceExp", F(x[0].clone().exp_()), {R({3, 5})}},
      {"aclnnExp2", F(x[0].exp2()), {R({3, 5})}},
      {"aclnnExpm1", F(x[0].expm1()), {R({3, 5})}},
      {"aclnnLog", F(x[0].log()), {P({3, 5})}},
      {"aclnnLog2", F(x[0].log2()), {P({3, 5})}},
      {"aclnnLog10", F(x[0].log10()), {P({3, 5})}},
      {"aclnnLog1p", F(x[0].log1p()), {P({3, 5})}},
      {"aclnnSqrt", F(x[0].sqrt()), {P({3, 5})}},
      {"aclnnRsqrt", F(x[0].rsqrt()), {P({3, 5})}},
      {"aclnnReciprocal", F(x[0].reciprocal()), {P({3, 5})}},
      {"aclnnSin", F(x[0].sin()), {R({3, 5})}},
      {"aclnnCos", F(x[0].cos()), {R({3, 5})}},
      {"aclnnTanh aclnnTanhBackward", F(x[0].tanh()), {R({3, 5})}},
      {"aclnnSigmoid aclnnSigmoidBackward", F(x[0].sigmoid()), {R({3, 5})}},
      {"aclnnRelu aclnnThresholdBackward", F(x[0].relu()), {R({3, 5})}},
      {"aclnnSilu aclnnSiluBackward", F(at::silu(x[0])), {R({3, 5})}},
      {"aclnnGelu aclnnGeluBackward", F(at::gelu(x[0])), {R({3, 5})}, 1e-5},
      {"aclnnErf", F(x[0].erf()), {R({3, 5})}},
      {"aclnnFloor", F(x[0].floor()), {R({3, 5})}},
      {"aclnnCeil", F(x[0].ceil()), {R({3, 5})}},
      {"aclnnRound", F(x[0].round()), {R({3, 5})}},
      {"aclnnTrunc", F(x[0].trunc()), {R({3, 5})}},
      {"aclnnSign", F(x[0].sign()), {R({3, 5})}},
      {"aclnnIsFinite", F(at::isfinite(x[0])), {R({3, 5}) / at::zeros({5})}},
      {"aclnnLogicalNot", F(x[0].logical_not()), {Bool({3, 5})}},
      {"aclnnBitwiseNot", F(x[0].bitwise_not()), {I({3, 5}, 9)}},
      {"aclnnAdd", F(at::add(x[0], x[1], 2)), {R({3, 5}), R({5})}},
      {"aclnnAdds", F(x[0] + 2.5), {R({3, 5})}},
      {"aclnnInplaceAdd", F(x[0].clone().add_(x[1])), {R({3, 5}), R({3, 5})}},
      {"aclnnInplaceAdds", F(x[0].clone().add_(1.5)), {R({3, 5})}},
      {"aclnnSub", F(x[0] - x[1]), {R({3, 5}), R({3, 1})}},
      {"aclnnSubs", F(x[0] - 1.5), {R({3, 5})}},
      {"aclnnInplaceSub", F(x[0].clone().sub_(x[1])), {R({3, 5}), R({3, 5})}},
      {"aclnnRsubs", F(at::rsub(x[0], 1)), {R({3, 5})}},
      {"aclnnMul", F(x[0] * x[1]), {R({3, 5}), R({5})}},
      {"aclnnMuls", F(x[0] * 3), {R({3, 5})}},
      {"aclnnInplaceMul", F(x[0].clone().mul_(x[1])), {R({3, 5}), R({3, 5})}},
      {"aclnnInplaceMuls", F(x[0].clone().mul_(2)), {R({3, 5})}},
      {"aclnnDiv", F(x[0] / x[1]), {R({3, 5}), P({3, 5})}},
      {"aclnnDivs", F(x[0] / 3), {R({3, 5})}},
      {"aclnnInplaceDiv", F(x[0].clone().div_(x[1])), {R({3, 5}), P({3, 5})}},
      {"aclnnInplaceDivs", F(x[0].clone().div_(2)), {R({3, 5})}},
      {"aclnnFloorDivides", F(at::floor_divide(x[0], 3)), {I({3, 5}, 20)}},
      {"aclnnRemainderTensorScalar", F(at::remainder(x[0], 3)), {I({3, 5}, 20)}},
      {"aclnnPowTensorScalar", F(x[0].pow(3)), {R({3, 5})}, 1e-5},
      {"aclnnPowTensorTensor", F(at::pow(x[0], x[1])), {P({3, 5}), P({3, 5})}},
      {"aclnnPowScalarTensor", F(at::pow(2, x[0])), {R({3, 5})}},
      {"aclnnAddcmul", F(at::addcmul(x[0], x[1], x[2], 0.5)), {R({4}), R({4}), R({4})}},
      {"aclnnAddcdiv", F(at::addcdiv(x[0], x[1], x[2], 0.5)), {R({4}), R({4}), P({4})}, 1e-4},
      {"aclnnLerps", F(at::lerp(x[0], x[1], 0.3)), {R({4}), R({4})}},
      {"aclnnMaximum", F(at::maximum(x[0], x[1])), {R({3, 5}), R({3, 5})}},
      {"aclnnMinimum", F(at::minimum(x[0], x[1])), {R({3, 5}), R({3, 5})}},
      {"aclnnLogicalAnd", F(at::logical_and(x[0], x[1])), {Bool({3, 5}), Bool({3, 5})}},
      {"aclnnLogicalOr", F(at::logical_or(x[0], x[1])), {Bool({3, 5}), Bool({3, 5})}},
      {"aclnnBitwiseAndTensor", F(at::bitwise_and(x[0], x[1])), {I({3, 5}, 9), I({3, 5}, 9)}},
      {"aclnnBitwiseOrTensor", F(at::bitwise_or(x[0], x[1])), {I({3, 5}, 9), I({3, 5}, 9)}},
      {"aclnnEqTensor", F(at::eq(x[0], x[1])), {I({3, 5}, 3), I({3, 5}, 3)}},
      {"aclnnNeTensor", F(at::ne(x[0], x[1])), {I({3, 5}, 3), I({3, 5}, 3)}},
      {"aclnnNeScalar", F(at::ne(x[0], 1)), {I({3, 5}, 3)}},
      {"aclnnEqScalar", F(at::eq(x[0], 1)), {I({3, 5}, 3)}},
      {"aclnnGtScalar", F(at::gt(x[0], 0)), {R({3, 5})}},
      {"aclnnLtScalar", F(at::lt(x[0], 0)), {R({3, 5})}},
      {"aclnnGeScalar", F(at::ge(x[0], 1)), {I({3, 5}, 3)}},
      {"aclnnLeScalar", F(at::le(x[0], 1)), {I({3, 5}, 3)}},
      {"aclnnGtTensor", F(at::gt(x[0], x[1])), {R({3, 5}), R({3, 5})}},
      {"aclnnLtTensor", F(at::lt(x[0], x[1])), {R({3, 5}), R({3, 5})}},
      {"aclnnGeTensor", F(at::ge(x[0], x[1])), {R({3, 5}), R({3, 5})}},
      {"aclnnLeTensor", F(at::le(x[0], x[1])), {R({3, 5}), R({3, 5})}},
      {"aclnnSWhere", F(at::where(x[0], x[1], x[2])), {Bool({3, 5}), R({3, 5}), R({5})}},
      {"aclnnClamp", F(at::clamp(x[0], -0.5, 0.5)), {R({3, 5})}},
      {"aclnnClampMin", F(at::clamp_min(x[0], 0.1)), {R({3, 5})}},
      {"aclnnClampMax", F(at::clamp_max(x[0], 0.1)), {R({3, 5})}},
      {"aclnnInplaceMaskedFillScalar",
       F(at::masked_fill(x[0], x[1], 2.0)),
       {R({3, 5}), Bool({3, 5})}},
      {"aclnnInplaceFillScalar", F(at::full_like(x[0], 3)), {R({3, 5})}},
      {"aclnnInplaceZero", F(at::zeros_like(x[0])), {R({3, 5})}},
      {"aclnnInplaceOne", F(at::ones({3, 5}, x[0].options().requires_grad(false))), {R({3, 5})}},
      {"aclnnInplaceCopy", F(x[0].to(at::kBFloat16)), {R({3, 5})}},
      {"aclnnInplaceCopy", F(x[0].to(at::kInt)), {R({3, 5}) * 5}},
      {"aclnnInplaceCopy", F(at::empty_like(x[0]).copy_(x[1])), {R({3, 5}), R({5, 3}).t()}},
  };
  return rows;
}

const std::vector<Row>& reductions() {
  static const std::vector<Row> rows = {
      {"aclnnReduceSum", F(x[0].sum({1}, true)), {R({3, 5, 2})}},
      {"aclnnReduceSum", F(x[0].sum()), {R({3, 5})}},
      {"aclnnMean", F(x[0].mean({-1}, false)), {R({3, 5})}},
      {"aclnnProd", F(x[0].prod()), {P({4})}},
      {"aclnnMax", F(x[0].max()), {R({3, 5})}},
      {"aclnnMin", F(x[0].min()), {R({3, 5})}},
      {"aclnnAmax", F(x[0].amax({1})), {R({3, 5})}},
      {"aclnnAmin", F(x[0].amin({0}, true)), {R({3, 5})}},
      {"aclnnAll", F(x[0].all()), {Bool({3, 5})}},
      {"aclnnAny", F(x[0].any(1)), {Bool({3, 5})}},
      {"aclnnArgMax", F(x[0].argmax(1)), {R({3, 5})}},
      {"aclnnArgMin", F(x[0].argmin(1)), {R({3, 5})}},
      {"aclnnMaxDim", F(std::get<0>(x[0].max(1))), {R({3, 5})}},
      {"aclnnMinDim", F(std::get<1>(x[0].min(1))), {R({3, 5})}},
      {"aclnnVarCorrection", F(x[0].var(at::OptionalIntArrayRef({1}), 1, false)), {R({3, 5})}},
      {"aclnnStd", F(x[0].std(at::OptionalIntArrayRef({1}), 1, false)), {R({3, 5})}},
      {"aclnnLinalgVectorNorm", F(at::linalg_vector_norm(x[0], 2)), {R({3, 5})}},
      {"aclnnLogSumExp", F(at::logsumexp(x[0], {1})), {R({3, 5})}},
      {"aclnnCumsum", F(x[0].cumsum(1)), {R({3, 5})}},
      {"aclnnTopk", F(std::get<0>(x[0].topk(2, 1))), {R({3, 5})}},
      {"aclnnSort", F(std::get<1>(x[0].sort(1, true))), {R({3, 5})}},
      {"aclnnSoftmax aclnnSoftmaxBackward", F(at::softmax(x[0], 1)), {R({3, 5})}},
      {"aclnnLogSoftmax aclnnLogSoftmaxBackward", F(at::log_softmax(x[0], -1)), {R({3, 5})}},
      {"aclnnBincount", F(at::bincount(x[0], {}, 6)), {I({20}, 6)}},
      {"aclnnHistc", F(at::histc(x[0], 4, 0, 4)), {P({20}) * 4}},
      {"aclnnNLLLoss aclnnNLLLossBackward",
       F(at::nll_loss(at::log_softmax(x[0], 1), x[1])),
       {R({6, 5}), I({6}, 5)}},
      {"aclnnNLLLoss aclnnNLLLossBackward",
       F(at::cross_entropy_loss(x[0], x[1].masked_fill(x[1] == 0, -100), {}, at::Reduction::Sum)),
       {R({6, 5}), I({6}, 5)}},
      {"aclnnMseLoss", F(at::mse_loss(x[0], x[1]).detach()), {R({6, 5}), R({6, 5})}},
  };
  return rows;
}

const std::vector<Row>& matmuls_and_norms() {
  static const std::vector<Row> rows = {
      {"aclnnMm", F(at::mm(x[0], x[1])), {R({3, 5}), R({5, 4})}, 1e-5},
      {"aclnnMm", F(at::mm(x[0].t(), x[1])), {R({5, 3}), R({5, 4})}, 1e-5},
      {"aclnnBatchMatMul", F(at::bmm(x[0], x[1])), {R({2, 3, 5}), R({2, 5, 4})}, 1e-5},
      {"aclnnMatmul", F(at::matmul(x[0], x[1])), {R({2, 3, 5}), R({5, 4})}, 1e-5},
      {"aclnnMatmul", F(at::linear(x[0], x[1])), {R({2, 3, 5}), R({4, 5})}, 1e-5},
      {"aclnnAddmm",
       F(at::addmm(x[0], x[1], x[2], 0.5, 2)),
       {R({3, 4}), R({3, 5}), R({5, 4})},
       1e-5},
      {"aclnnBaddbmm",
       F(at::baddbmm(x[0], x[1], x[2])),
       {R({2, 3, 4}), R({2, 3, 5}), R({2, 5, 4})},
       1e-5},
      {"aclnnLayerNorm aclnnLayerNormBackward",
       F(at::layer_norm(x[0], {8}, x[1], x[2])),
       {R({3, 8}), R({8}), R({8})},
       1e-5},
  };
  return rows;
}

const std::vector<Row>& indices_and_shapes() {
  static const std::vector<Row> rows = {
      {"aclnnEmbedding aclnnEmbeddingDenseBackward",
       F(at::embedding(x[0], x[1])),
       {R({7, 4}), I({2, 5}, 7)}},
      {"aclnnGather aclnnScatterAdd", F(at::gather(x[0], 1, x[1])), {R({3, 5}), I({3, 2}, 5)}},
      {"aclnnIndexSelect", F(at::index_select(x[0], 1, x[1])), {R({3, 5}), I({4}, 5)}},
      {"aclnnIndex aclnnIndexPutImpl", F(at::index(x[0], {x[1]})), {R({6, 3}), I({4}, 6)}},
      {"aclnnIndexAdd", F(at::index_add(x[0], 0, x[1], x[2])), {R({6, 3}), I({4}, 6), R({4, 3})}},
      {"aclnnScatterAdd",
       F(at::scatter_add(x[0], 1, x[1], x[2])),
       {R({3, 5}), I({3, 2}, 5), R({3, 2})}},
      {"aclnnNonzero", F(at::nonzero(x[0])), {Bool({4, 5})}},
      {"aclnnMaskedSelect", F(at::masked_select(x[0], x[1])), {R({4, 5}), Bool({4, 5})}},
      {"aclnnUnique2", F(std::get<0>(at::_unique2(x[0], true, false, false))), {I({20}, 6)}},
      {"aclnnTriu", F(at::triu(x[0], 1)), {R({5, 5})}},
      {"aclnnTril", F(at::tril(x[0], -1)), {R({5, 5})}},
      {"aclnnStack", F(at::stack({x[0], x[1]}, 1)), {R({3, 5}), R({3, 5})}},
      {"aclnnCat", F(at::cat({x[0], x[1]}, 1)), {R({3, 5}), R({3, 2})}},
      {"aclnnRepeat", F(x[0].repeat({2, 3})), {R({3, 5})}},
      {"aclnnRepeatInterleaveIntWithDim", F(at::repeat_interleave(x[0], 3, 1)), {R({3, 5})}},
      {"aclnnFlip", F(at::flip(x[0], {1})), {R({3, 5})}},
      {"aclnnRoll", F(at::roll(x[0], {2}, {1})), {R({3, 5})}},
      {"aclnnConstantPadNd", F(at::constant_pad_nd(x[0], {1, 2}, 0.5)), {R({3, 5})}},
      {"aclnnArange", F(at::arange(1, 9, 2, x[0].options().requires_grad(false))), {R({1})}},
  };
  return rows;
}

const std::vector<Row>& activations() {
  static const std::vector<Row> rows = {
      {"aclnnAcos", F(x[0].acos()), {P({3, 5})}},
      {"aclnnAsin", F(x[0].asin()), {P({3, 5})}},
      {"aclnnCosh", F(x[0].cosh()), {R({3, 5})}, 1e-5},
      {"aclnnSinh", F(x[0].sinh()), {R({3, 5})}, 1e-5},
      {"aclnnErfc", F(x[0].erfc()), {R({3, 5})}},
      {"aclnnHardswish aclnnHardswishBackwardV2", F(at::hardswish(x[0])), {R({3, 5}) * 3}},
      {"aclnnMish", F(at::mish(x[0]).detach()), {R({3, 5})}},
      {"aclnnSoftplus aclnnSoftplusBackward", F(at::softplus(x[0])), {R({3, 5})}},
      {"aclnnElu aclnnEluBackward", F(at::elu(x[0])), {R({3, 5})}},
      {"aclnnLeakyRelu aclnnLeakyReluBackward", F(at::leaky_relu(x[0], 0.1)), {R({3, 5})}},
      {"aclnnGlu aclnnGluBackward", F(at::glu(x[0], 1)), {R({3, 6})}},
      {"aclnnLogSigmoidForward aclnnLogSigmoidBackward", F(at::log_sigmoid(x[0])), {R({3, 5})}},
      {"aclnnLogAddExp", F(at::logaddexp(x[0], x[1]).detach()), {R({3, 5}), R({3, 5})}},
      {"aclnnFmodScalar", F(at::fmod(x[0], 0.7)), {R({3, 5})}},
      {"aclnnIsClose",
       F(at::isclose(x[0], x[1])),
       {at::ones({3}), at::tensor({1.0F, 1.0001F, 2.0F})}},
      {"aclnnInplaceLogicalAnd", F(x[0].clone().logical_and_(x[1])), {Bool({3, 5}), Bool({3, 5})}},
      {"aclnnInplaceMaskedScatter",
       F(at::masked_scatter(x[0], x[1], x[2])),
       {R({3, 5}), Bool({3, 5}), R({15})}},
  };
  return rows;
}

const std::vector<Row>& losses() {
  static const std::vector<Row> rows = {
      {"aclnnMseLoss aclnnMseLossBackward",
       F(at::mse_loss(x[0], x[1].detach())),
       {R({6, 5}), R({6, 5})}},
      {"aclnnL1Loss aclnnL1LossBackward",
       F(at::l1_loss(x[0], x[1].detach())),
       {R({6, 5}), R({6, 5})}},
      {"aclnnSmoothL1Loss aclnnSmoothL1LossBackward",
       F(at::smooth_l1_loss(x[0], x[1].detach())),
       {R({6, 5}), R({6, 5})}},
      {"aclnnKlDiv aclnnKlDivBackward", F(at::kl_div(x[0], x[1].detach())), {R({6, 5}), P({6, 5})}},
      {"aclnnBinaryCrossEntropyWithLogits aclnnBinaryCrossEntropyWithLogitsBackward",
       F(at::binary_cross_entropy_with_logits(x[0], x[1].detach())),
       {R({6, 5}), P({6, 5})}},
  };
  return rows;
}

const std::vector<Row>& foreach_rows() {
  static const std::vector<Row> rows = {
      {"aclnnForeachNorm", F(at::stack(at::_foreach_norm({x[0], x[1]}, 2))), {R({3, 5}), R({4})}},
      {"aclnnForeachSqrt", F(at::_foreach_sqrt({x[0]})[0]), {P({3, 5})}},
      {"aclnnForeachAddScalarV2", F(at::_foreach_add({x[0]}, 2.0)[0]), {R({3, 5})}},
      {"aclnnForeachMulScalarV2", F(at::_foreach_mul({x[0]}, 2.0)[0]), {R({3, 5})}},
      {"aclnnForeachDivScalarV2", F(at::_foreach_div({x[0]}, 2.0)[0]), {R({3, 5})}},
      {"aclnnForeachMulList",
       F(at::_foreach_mul(Tensors{x[0]}, Tensors{x[1]})[0]),
       {R({3, 5}), R({3, 5})}},
      {"aclnnForeachDivList",
       F(at::_foreach_div(Tensors{x[0]}, Tensors{x[1]})[0]),
       {R({3, 5}), P({3, 5})}},
      {"aclnnForeachAddListV2",
       F(at::_foreach_add(Tensors{x[0]}, Tensors{x[1]}, 0.5)[0]),
       {R({3, 5}), R({3, 5})}},
      {"aclnnForeachLerpScalar",
       F(at::_foreach_lerp({x[0]}, {x[1]}, 0.3)[0]),
       {R({3, 5}), R({3, 5})}},
      {"aclnnForeachAddcmulScalarV2",
       F(at::_foreach_addcmul({x[0]}, {x[1]}, {x[2]}, 0.5)[0]),
       {R({4}), R({4}), R({4})}},
      {"aclnnForeachAddcdivScalarV2",
       F(at::_foreach_addcdiv({x[0]}, {x[1]}, {x[2]}, 0.5)[0]),
       {R({4}), R({4}), P({4})},
       1e-5},
  };
  return rows;
}

TEST(Operators, Pointwise) { check(pointwise()); }
TEST(Operators, Activations) { check(activations()); }
TEST(Operators, Losses) { check(losses()); }
TEST(Operators, Reductions) { check(reductions()); }
TEST(Operators, MatrixProductsAndNorms) { check(matmuls_and_norms()); }
TEST(Operators, IndicesAndShapes) { check(indices_and_shapes()); }
TEST(Operators, Foreach) { check(foreach_rows()); }

}  // namespace
}  // namespace npu_test
