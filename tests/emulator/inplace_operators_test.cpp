// In-place forms, lists of scalars, and operators that training meets rarely.
#include <torch_npu/csrc/aten/NPUGeneratorImpl.h>

#include "emulator/rows.h"

namespace npu_test {
namespace {

// The function changes a copy of the first input.
#define IN_PLACE(call)                \
  [](const Tensors& x) -> Tensor {    \
    Tensor y = x[0].detach().clone(); \
    y.call;                           \
    return y;                         \
  }

const std::vector<Row>& in_place() {
  static const std::vector<Row> rows = {
      {"aclnnInplaceAddcdiv", IN_PLACE(addcdiv_(x[1], x[2], 0.5)), {R({4}), R({4}), P({4})}, 1e-5},
      {"aclnnInplaceAddcmul", IN_PLACE(addcmul_(x[1], x[2], 0.5)), {R({4}), R({4}), R({4})}},
      {"aclnnInplaceAddmm", IN_PLACE(addmm_(x[1], x[2])), {R({3, 4}), R({3, 5}), R({5, 4})}, 1e-5},
      {"aclnnInplaceAtan", IN_PLACE(atan_()), {R({3, 5})}},
      {"aclnnInplaceBitwiseAndTensor", IN_PLACE(bitwise_and_(x[1])), {I({3, 5}, 9), I({3, 5}, 9)}},
      {"aclnnInplaceBitwiseXorTensor", IN_PLACE(bitwise_xor_(x[1])), {I({3, 5}, 9), I({3, 5}, 9)}},
      {"aclnnInplaceClampMax", IN_PLACE(clamp_max_(0.1)), {R({3, 5})}},
      {"aclnnInplaceClampMaxTensor", IN_PLACE(clamp_max_(x[1])), {R({3, 5}), R({3, 5})}},
      {"aclnnInplaceClampMinTensor", IN_PLACE(clamp_min_(x[1])), {R({3, 5}), R({3, 5})}},
      {"aclnnInplaceFloorDivide", IN_PLACE(floor_divide_(x[1])), {I({3, 5}, 20), I({3, 5}, 5) + 1}},
      {"aclnnInplaceIndexFill",
       IN_PLACE(index_fill_(0, x[1], 2.0)),
       {R({6, 3}), at::tensor({4, 1}, at::kLong)}},
      {"aclnnInplaceCos", IN_PLACE(cos_()), {R({3, 5})}},
      {"aclnnInplaceEqScalar", IN_PLACE(eq_(1)), {I({3, 5}, 3)}},
      {"aclnnInplaceEqTensor", IN_PLACE(eq_(x[1])), {I({3, 5}, 3), I({3, 5}, 3)}},
      {"aclnnInplaceErf", IN_PLACE(erf_()), {R({3, 5})}},
      {"aclnnInplaceErfinv", IN_PLACE(erfinv_()), {P({3, 5})}, 1e-5},
      {"aclnnInplaceExp2", IN_PLACE(exp2_()), {R({3, 5})}},
      {"aclnnInplaceExpm1", IN_PLACE(expm1_()), {R({3, 5})}},
      {"aclnnInplaceFloor", IN_PLACE(floor_()), {R({3, 5})}},
      {"aclnnInplaceFillTensor", IN_PLACE(fill_(x[1])), {R({3, 5}), R({})}},
      {"aclnnInplaceFloorDivides", IN_PLACE(floor_divide_(3)), {I({3, 5}, 20)}},
      {"aclnnInplaceGeScalar", IN_PLACE(ge_(1)), {I({3, 5}, 3)}},
      {"aclnnInplaceGeTensor", IN_PLACE(ge_(x[1])), {I({3, 5}, 3), I({3, 5}, 3)}},
      {"aclnnInplaceGtScalar", IN_PLACE(gt_(1)), {I({3, 5}, 3)}},
      {"aclnnInplaceGtTensor", IN_PLACE(gt_(x[1])), {I({3, 5}, 3), I({3, 5}, 3)}},
      {"aclnnInplaceLeScalar", IN_PLACE(le_(1)), {I({3, 5}, 3)}},
      {"aclnnInplaceLeTensor", IN_PLACE(le_(x[1])), {I({3, 5}, 3), I({3, 5}, 3)}},
      {"aclnnInplaceLtScalar", IN_PLACE(lt_(1)), {I({3, 5}, 3)}},
      {"aclnnInplaceLtTensor", IN_PLACE(lt_(x[1])), {I({3, 5}, 3), I({3, 5}, 3)}},
      {"aclnnInplaceNeScalar", IN_PLACE(ne_(1)), {I({3, 5}, 3)}},
      {"aclnnInplaceNeTensor", IN_PLACE(ne_(x[1])), {I({3, 5}, 3), I({3, 5}, 3)}},
      {"aclnnInplaceLerp", IN_PLACE(lerp_(x[1], x[2])), {R({4}), R({4}), P({4})}},
      {"aclnnInplaceLerps", IN_PLACE(lerp_(x[1], 0.3)), {R({4}), R({4})}},
      {"aclnnInplaceLog", IN_PLACE(log_()), {P({3, 5})}},
      {"aclnnInplaceLog10", IN_PLACE(log10_()), {P({3, 5})}},
      {"aclnnInplaceLog1p", IN_PLACE(log1p_()), {P({3, 5})}},
      {"aclnnInplaceLog2", IN_PLACE(log2_()), {P({3, 5})}},
      {"aclnnInplaceLogicalNot", IN_PLACE(logical_not_()), {Bool({3, 5})}},
      {"aclnnInplaceLogicalOr", IN_PLACE(logical_or_(x[1])), {Bool({3, 5}), Bool({3, 5})}},
      {"aclnnInplaceNanToNum", IN_PLACE(nan_to_num_(1.0)), {R({3, 5}) / at::zeros({5}) * 0}},
      {"aclnnInplacePowTensorScalar", IN_PLACE(pow_(2)), {R({3, 5})}},
      {"aclnnInplacePowTensorTensor", IN_PLACE(pow_(x[1])), {P({3, 5}), P({3, 5})}},
      {"aclnnInplaceReciprocal", IN_PLACE(reciprocal_()), {P({3, 5})}},
      {"aclnnInplaceRelu", IN_PLACE(relu_()), {R({3, 5})}},
      {"aclnnInplaceRemainderTensorScalar", IN_PLACE(remainder_(3)), {I({3, 5}, 20)}},
      {"aclnnInplaceRemainderTensorTensor",
       IN_PLACE(remainder_(x[1])),
       {I({3, 5}, 20), I({3, 5}, 5) + 1}},
      {"aclnnInplaceRsqrt", IN_PLACE(rsqrt_()), {P({3, 5})}},
      {"aclnnInplaceSigmoid", IN_PLACE(sigmoid_()), {R({3, 5})}},
      {"aclnnInplaceSin", IN_PLACE(sin_()), {R({3, 5})}},
      {"aclnnInplaceSqrt", IN_PLACE(sqrt_()), {P({3, 5})}},
      {"aclnnInplaceSubs", IN_PLACE(sub_(1.5)), {R({3, 5})}},
      {"aclnnInplaceTan", IN_PLACE(tan_()), {P({3, 5})}},
      {"aclnnInplaceTanh", IN_PLACE(tanh_()), {R({3, 5})}},
      {"aclnnInplaceTril", IN_PLACE(tril_()), {R({5, 5})}},
      {"aclnnInplaceTriu", IN_PLACE(triu_(1)), {R({5, 5})}},
      {"aclnnInplaceMaskedFillTensor",
       IN_PLACE(masked_fill_(x[1], x[2])),
       {R({3, 5}), Bool({3, 5}), R({})}},
      {"aclnnInplaceIndexCopy",
       IN_PLACE(index_copy_(0, x[1], x[2])),
       {R({6, 3}), at::tensor({4, 1}, at::kLong), R({2, 3})}},
      {"aclnnInplaceScatter",
       IN_PLACE(scatter_(1, x[1], x[2])),
       {R({3, 5}), at::tensor({0, 2, 4}, at::kLong).view({3, 1}), R({3, 1})}},
      {"aclnnInplaceScatterValue", IN_PLACE(scatter_(1, x[1], 2.0)), {R({3, 5}), I({3, 2}, 5)}},
  };
  return rows;
}

const std::vector<Row>& rare() {
  static const std::vector<Row> rows = {
      {"aclnnAddV3", F(at::add(at::scalar_tensor(2.0), x[0])), {R({3, 5})}},
      {"aclnnEqual", F(at::full({1}, at::equal(x[0], x[1]))), {I({3}, 9), I({3}, 9)}},
      {"aclnnEqual", F(at::full({1}, at::equal(x[0], x[0].clone()))), {I({3}, 9)}},
      {"aclnnIsInTensorScalar", F(at::isin(x[0], at::Scalar(1))), {I({3, 5}, 3)}},
      {"aclnnIndexFill",
       F(at::index_fill(x[0], 0, x[1], 2.0).detach()),
       {R({6, 3}), at::tensor({4, 1}, at::kLong)}},
      {"aclnnRange", F(at::range(1, 5, 2, x[0].options().requires_grad(false))), {R({1})}},
      {"aclnnRepeatInterleave",
       F(at::repeat_interleave(x[0], x[1]).detach()),
       {R({3}), at::tensor({1, 0, 2}, at::kLong)}},
      // Used for many pieces of few long rows.
      {"aclnnSplitWithSize",
       [](const Tensors& x) -> Tensor {
         at::NoGradGuard no_grad;
         Tensors out(33);
         for (Tensor& piece : out) piece = at::zeros({2, 2000}, x[0].options());
         at::split_with_sizes_copy_out(out, x[0], std::vector<int64_t>(33, 2000), 1);
         return at::cat(out, 1);
       },
       {R({2, 66000})}},
      {"aclnnAtan", F(x[0].atan()), {R({3, 5})}},
      {"aclnnTan", F(x[0].tan()), {P({3, 5})}},
      {"aclnnAtan2", F(at::atan2(x[0], x[1]).detach()), {R({3, 5}), R({3, 5})}},
      {"aclnnErfinv", F(x[0].erfinv().detach()), {P({3, 5})}, 1e-5},
      {"aclnnSignbit", F(x[0].signbit()), {R({3, 5})}},
      {"aclnnLogicalXor", F(at::logical_xor(x[0], x[1])), {Bool({3, 5}), Bool({3, 5})}},
      {"aclnnBitwiseXorTensor", F(at::bitwise_xor(x[0], x[1])), {I({3, 5}, 9), I({3, 5}, 9)}},
      {"aclnnBitwiseAndScalar", F(at::bitwise_and(x[0], 5)), {I({3, 5}, 9)}},
      {"aclnnBitwiseOrScalar", F(at::bitwise_or(x[0], 5)), {I({3, 5}, 9)}},
      {"aclnnBitwiseXorScalar", F(at::bitwise_xor(x[0], 5)), {I({3, 5}, 9)}},
      {"aclnnClampTensor", F(at::clamp(x[0], x[1], x[2]).detach()), {R({3, 5}), -P({3, 5}), P({3, 5})}},
      {"aclnnClampMinTensor", F(at::clamp_min(x[0], x[1]).detach()), {R({3, 5}), R({3, 5})}},
      {"aclnnClampMaxTensor", F(at::clamp_max(x[0], x[1]).detach()), {R({3, 5}), R({3, 5})}},
      {"aclnnDivMod", F(at::div(x[0], x[1], "floor").detach()), {R({3, 5}), P({3, 5})}},
      {"aclnnDivMods", F(at::div(x[0], 0.3, "trunc").detach()), {R({3, 5})}},
      {"aclnnFloorDivide", F(at::floor_divide(x[0], x[1])), {I({3, 5}, 20), I({3, 5}, 5) + 1}},
      {"aclnnFmodTensor", F(at::fmod(x[0], x[1]).detach()), {R({3, 5}), P({3, 5})}},
      {"aclnnRemainderTensorTensor", F(at::remainder(x[0], x[1])), {I({3, 5}, 20), I({3, 5}, 5) + 1}},
      {"aclnnRemainderScalarTensor", F(at::remainder(7, x[0])), {I({3, 5}, 5) + 1}},
      {"aclnnLerp", F(at::lerp(x[0], x[1], x[2]).detach()), {R({4}), R({4}), P({4})}},
      {"aclnnRsub", F(at::rsub(x[0], x[1])), {R({3, 5}), R({3, 5})}},
      {"aclnnXLogYTensor", F(at::xlogy(x[0], x[1]).detach()), {R({3, 5}), P({3, 5})}},
      {"aclnnIsPosInf", F(at::isposinf(x[0])), {R({3, 5}) / at::zeros({5})}},
      {"aclnnIsNegInf", F(at::isneginf(x[0])), {R({3, 5}) / at::zeros({5})}},
      {"aclnnNanToNum", F(at::nan_to_num(x[0]).detach()), {R({3, 5}) / at::zeros({5})}},
      {"aclnnHardtanh", F(at::hardtanh(x[0]).detach()), {R({3, 5}) * 2}},
      {"aclnnLogit", F(at::logit(x[0]).detach()), {P({3, 5})}, 1e-5},
      {"aclnnDot", F(at::dot(x[0], x[1])), {R({6}), R({6})}},
      {"aclnnMv", F(at::mv(x[0], x[1])), {R({3, 6}), R({6})}, 1e-5},
      {"aclnnAddbmm", F(at::addbmm(x[0], x[1], x[2]).detach()), {R({3, 4}), R({2, 3, 5}), R({2, 5, 4})}, 1e-5},
      {"aclnnProdDim", F(x[0].prod(1).detach()), {P({3, 4})}},
      {"aclnnCumprod", F(x[0].cumprod(1).detach()), {P({3, 4})}},
      {"aclnnNorm", F(at::norm(x[0], 2, {1}).detach()), {R({3, 4})}},
      {"aclnnOneHot", F(at::one_hot(x[0], 5)), {I({7}, 5)}},
      {"aclnnChunkCat", F(at::_chunk_cat({x[0], x[1]}, 0, 2).detach()), {R({4, 3}), R({2, 3})}},
      {"aclnnEye", F(at::eye(4, x[0].options().requires_grad(false))), {R({1})}},
      {"aclnnLinspace", F(at::linspace(0, 1, 5, x[0].options().requires_grad(false))), {R({1})}},
      {"aclnnTrace", F(at::trace(x[0]).detach()), {R({4, 4})}},
      {"aclnnTake", F(at::take(x[0], x[1]).detach()), {R({4, 4}), I({5}, 16)}},
      {"aclnnIndexCopy", F(at::index_copy(x[0], 0, x[1], x[2]).detach()), {R({6, 3}), at::tensor({4, 1}, at::kLong), R({2, 3})}},
      {"aclnnScatter", F(at::scatter(x[0], 1, x[1], x[2]).detach()), {R({3, 5}), at::tensor({0, 2, 4}, at::kLong).view({3, 1}), R({3, 1})}},
      {"aclnnScatterValue", F(at::scatter(x[0], 1, x[1], 2.0).detach()), {R({3, 5}), I({3, 2}, 5)}},
      {"aclnnSearchSorted", F(at::searchsorted(x[0], x[1])), {at::arange(6, at::kFloat), P({4}) * 6}},
      {"aclnnRepeatInterleaveInt", F(at::repeat_interleave(x[0], 3).detach()), {R({4})}},
      {"aclnnRepeatInterleaveWithDim", F(at::repeat_interleave(x[0], x[1], 0).detach()), {R({3, 2}), at::tensor({1, 0, 2}, at::kLong)}},
      {"aclnnForeachNonFiniteCheckAndUnscale",
       [](const Tensors& x) -> Tensor {
         Tensors grads{x[0].detach().clone()};
         const Tensor found = at::zeros({1}, x[0].options().requires_grad(false));
         at::_amp_foreach_non_finite_check_and_unscale_(grads, const_cast<Tensor&>(found), x[1].detach());
         return at::cat({grads[0], found});
       },
       {R({5}), at::full({1}, 0.5)}},
  };
  return rows;
}

#define LIST(call) [](const Tensors& x) -> Tensor { return at::call[0].detach(); }
#define LIST_IN_PLACE(call)           \
  [](const Tensors& x) -> Tensor {    \
    at::NoGradGuard no_grad;          \
    Tensors y{x[0].detach().clone()}; \
    at::call;                         \
    return y[0];                      \
  }

const std::vector<Row>& lists() {
  static const std::vector<Row> rows = {
      {"aclnnForeachAbs", LIST(_foreach_abs({x[0]})), {R({3, 5})}},
      {"aclnnForeachNeg", LIST(_foreach_neg({x[0]})), {R({3, 5})}},
      {"aclnnForeachExp", LIST(_foreach_exp({x[0]})), {R({3, 5})}},
      {"aclnnForeachExpm1", LIST(_foreach_expm1({x[0]})), {R({3, 5})}},
      {"aclnnForeachLog", LIST(_foreach_log({x[0]})), {P({3, 5})}},
      {"aclnnForeachReciprocal", LIST(_foreach_reciprocal({x[0]})), {P({3, 5})}},
      {"aclnnForeachSigmoid", LIST(_foreach_sigmoid({x[0]})), {R({3, 5})}},
      {"aclnnForeachTanh", LIST(_foreach_tanh({x[0]})), {R({3, 5})}},
      {"aclnnForeachSubScalarV2", LIST(_foreach_sub({x[0]}, 2.0)), {R({3, 5})}},
      {"aclnnForeachPowScalarV2", LIST(_foreach_pow({x[0]}, 2.0)), {R({3, 5})}},
      {"aclnnForeachMaximumScalarV2", LIST(_foreach_maximum({x[0]}, 0.1)), {R({3, 5})}},
      {"aclnnForeachMinimumScalarV2", LIST(_foreach_minimum({x[0]}, 0.1)), {R({3, 5})}},
      {"aclnnForeachAddScalarList",
       LIST(_foreach_add({x[0]}, std::vector<at::Scalar>{2.0})),
       {R({3, 5})}},
      {"aclnnForeachSubScalarList",
       LIST(_foreach_sub({x[0]}, std::vector<at::Scalar>{2.0})),
       {R({3, 5})}},
      {"aclnnForeachMulScalarList",
       LIST(_foreach_mul({x[0]}, std::vector<at::Scalar>{2.0})),
       {R({3, 5})}},
      {"aclnnForeachDivScalarList",
       LIST(_foreach_div({x[0]}, std::vector<at::Scalar>{2.0})),
       {R({3, 5})}},
      {"aclnnForeachSubListV2",
       LIST(_foreach_sub(Tensors{x[0]}, Tensors{x[1]}, 0.5)),
       {R({3, 5}), R({3, 5})}},
      {"aclnnForeachMaximumList",
       LIST(_foreach_maximum(Tensors{x[0]}, Tensors{x[1]})),
       {R({3, 5}), R({3, 5})}},
      {"aclnnForeachMinimumList",
       LIST(_foreach_minimum(Tensors{x[0]}, Tensors{x[1]})),
       {R({3, 5}), R({3, 5})}},
      {"aclnnForeachLerpList",
       LIST(_foreach_lerp(Tensors{x[0]}, Tensors{x[1]}, Tensors{x[2]})),
       {R({4}), R({4}), P({4})}},
      {"aclnnForeachZeroInplace", LIST_IN_PLACE(_foreach_zero_(y)), {R({3, 5})}},
      {"aclnnForeachCopy", LIST_IN_PLACE(_foreach_copy_(y, {x[1]})), {R({3, 5}), R({3, 5})}},
  };
  return rows;
}

TEST(Operators, InPlace) { check(in_place()); }
TEST(Operators, Rare) { check(rare()); }
TEST(Operators, Lists) { check(lists()); }

// Random numbers have no equal on the CPU: the same seed gives the same numbers, and their mean is
// right.
TEST(Operators, RandomNumbers) {
  const at::TensorOptions options(device());
  // at::manual_seed() and the context's default generator do not know this device.
  const auto seed = [] {
    auto generator = at_npu::detail::getDefaultNPUGenerator(0);
    std::lock_guard lock(generator.mutex());
    generator.set_current_seed(3);
  };
  const auto draw = [&](const char* name, const std::function<Tensor()>& make, double mean,
                        double within) {
    const uint64_t before = calls(name);
    seed();
    const Tensor first = make().cpu().to(at::kDouble);
    seed();
    const Tensor again = make().cpu().to(at::kDouble), other = make().cpu().to(at::kDouble);
    EXPECT_GT(calls(name), before) << name;
    EXPECT_TRUE(at::equal(first, again)) << name;
    EXPECT_FALSE(at::equal(first, other)) << name;
    EXPECT_NEAR(first.mean().item<double>(), mean, within) << name;
  };
  draw(
      "aclnnInplaceNormal", [&] { return at::randn({4096}, options); }, 0, 0.06);
  draw(
      "aclnnInplaceUniform", [&] { return at::rand({4096}, options); }, 0.5, 0.03);
  draw(
      "aclnnInplaceRandom", [&] { return at::randint(0, 10, {4096}, options.dtype(at::kLong)); },
      4.5, 0.2);
  draw(
      "aclnnInplaceBernoulli", [&] { return at::empty({4096}, options).bernoulli_(0.25); }, 0.25,
      0.03);
  draw(
      "aclnnInplaceBernoulliTensor",
      [&] { return at::empty({4096}, options).bernoulli_(at::full({4096}, 0.25, options)); }, 0.25,
      0.03);
  draw(
      "aclnnMultinomial", [&] { return at::multinomial(at::ones({10}, options), 4096, true); }, 4.5,
      0.2);
  draw(
      "aclnnDropoutGenMaskV2", [&] { return at::dropout(at::ones({4096}, options), 0.5, true); }, 1,
      0.08);
  draw(
      "aclnnRandperm", [&] { return at::randperm(100, options.dtype(at::kLong)); }, 49.5, 1e-9);
  draw(
      "aclnnDropoutDoMask", [&] { return at::dropout(at::ones({4096}, options), 0.5, true); }, 1,
      0.08);
}

}  // namespace
}  // namespace npu_test
