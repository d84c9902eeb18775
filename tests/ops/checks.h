// What the tests of ops share: seeded tensors, gradients, finite differences, and how far two
// tensors are apart.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace titan::ops {

using Inputs = std::vector<at::Tensor>;
using Function = std::function<at::Tensor(const Inputs&)>;

inline at::Tensor seeded(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat,
                         uint64_t seed = 1) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randn(shape, generator, at::TensorOptions(at::kDouble)).to(dtype);
}

// The same values, strided as if they had been transposed.
inline at::Tensor strided(const at::Tensor& x) {
  return x.dim() < 2 ? x.unsqueeze(1).expand({-1, 2}).contiguous().select(1, 0)
                     : x.transpose(0, 1).contiguous().transpose(0, 1);
}

// max |a - b| over max |b|, in float64; NaN counts as infinitely far.
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return INFINITY;
  if (b.numel() == 0) return 0;
  const double scale = b.to(at::kDouble).abs().max().item<double>();
  const double off = (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
  return std::isfinite(off) ? off / std::max(scale, 1e-30) : INFINITY;
}

struct Result {
  at::Tensor output;
  std::vector<at::Tensor> gradients;  // of sum(output * w) with fixed w
};

// Runs f on leaves that hold the given values (strides kept) and walks back.
inline Result run(const Function& f, const Inputs& values) {
  Inputs leaves;
  for (const auto& value : values) leaves.push_back(value.detach().set_requires_grad(true));
  Result result;
  const at::Tensor output = f(leaves);
  output.backward(seeded(output.sizes(), output.scalar_type(), 99));
  result.output = output.detach();
  for (auto& leaf : leaves) {
    result.gradients.push_back(leaf.grad().clone());
    leaf.mutable_grad().reset();
  }
  return result;
}

inline void expect_close(const Result& a, const Result& b, double tolerance, const char* what) {
  EXPECT_EQ(a.output.scalar_type(), b.output.scalar_type()) << what;
  EXPECT_LE(distance(a.output, b.output), tolerance) << what;
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    EXPECT_LE(distance(a.gradients[i], b.gradients[i]), tolerance) << what << ", gradient " << i;
  }
}

// Gradients of f at float64 values against central differences.
inline void expect_true_gradients(const Function& f, const Inputs& values,
                                  double tolerance = 1e-7) {
  const Result result = run(f, values);
  const at::Tensor w = seeded(result.output.sizes(), at::kDouble, 99);
  const double h = 1e-5;
  for (size_t i = 0; i < values.size(); ++i) {
    at::Tensor expected = at::empty(values[i].sizes(), at::kDouble);
    for (int64_t j = 0; j < values[i].numel(); ++j) {
      const auto at_offset = [&](double offset) {
        Inputs moved;
        for (const auto& value : values) moved.push_back(value.detach().clone());
        moved[i].view(-1)[j] += offset;
        return (f(moved).detach() * w).sum().item<double>();
      };
      expected.view(-1)[j] = (at_offset(h) - at_offset(-h)) / (2 * h);
    }
    EXPECT_LE(distance(result.gradients[i], expected), tolerance) << "input " << i;
  }
}

struct Precision {
  at::ScalarType dtype;
  double tolerance;
};

// Tolerances of one op against its reference, per dtype.
inline std::vector<Precision> precisions() {
  return {{at::kDouble, 1e-13}, {at::kFloat, 2e-6}, {at::kBFloat16, 2e-2}};
}

}  // namespace titan::ops
