// A table of operators, each compared with the CPU: result and, where there is one, gradient. A row
// names the operators that must have run, so that a row which takes another way fails.
#pragma once

#include <sstream>

#include "emulator/npu.h"

namespace npu_test {

using Function = std::function<Tensor(const Tensors&)>;

struct Row {
  const char* operators;  // that must be called, separated by spaces
  Function run;
  Tensors inputs;  // float ones get gradients
  double tolerance = 1e-6;
  Function reference = nullptr;  // for the CPU; `run` itself when it is one of ATen's functions
};

inline at::Generator& generator() {
  static at::Generator made = at::make_generator<at::CPUGeneratorImpl>(1);
  return made;
}
inline Tensor R(at::IntArrayRef shape) { return at::randn(shape, generator()); }
inline Tensor P(at::IntArrayRef shape) {
  return at::rand(shape, generator()) * 0.9 + 0.05;
}  // within (0, 1)
inline Tensor I(at::IntArrayRef shape, int64_t end) {
  return at::randint(0, end, shape, generator(), at::kLong);
}
inline Tensor Bool(at::IntArrayRef shape) { return at::rand(shape, generator()) > 0.5; }

#define F(expression) [](const Tensors& x) -> Tensor { return expression; }

inline Tensors moved(const Tensors& inputs, at::Device where) {
  Tensors result;
  for (const Tensor& x : inputs) {
    const Tensor copy = x.to(where).detach();
    result.push_back(copy.is_floating_point() ? copy.requires_grad_() : copy);
  }
  return result;
}

// Result first, then the gradient of each float input that has one, from one random cotangent.
inline Tensors evaluate(const Row& row, at::Device where, const Tensor& cotangent) {
  const Tensors inputs = moved(row.inputs, where);
  Tensors all{(where.is_cpu() && row.reference ? row.reference : row.run)(inputs)};
  if (!all[0].requires_grad()) return all;
  Tensors leaves;
  for (const Tensor& x : inputs) {
    if (x.requires_grad()) leaves.push_back(x);
  }
  const Tensor weight =
      cotangent.slice(0, 0, all[0].numel()).reshape(all[0].sizes()).to(where, all[0].scalar_type());
  for (const Tensor& grad :
       torch::autograd::grad({all[0]}, leaves, {weight}, std::nullopt, false, true)) {
    all.push_back(grad);
  }
  return all;
}

inline void check(const std::vector<Row>& rows) {
  const Tensor cotangent = R({4096});
  device();
  for (const Row& row : rows) {
    std::vector<std::pair<std::string, uint64_t>> before;
    std::istringstream names(row.operators);
    for (std::string name; names >> name;) before.emplace_back(name, calls(name));
    try {
      const Tensors cpu = evaluate(row, at::kCPU, cotangent),
                    npu = evaluate(row, device(), cotangent);
      for (size_t at = 0; at < cpu.size(); ++at) {
        if (!cpu[at].defined()) continue;
        const std::string what = std::string(row.operators) + (at ? " gradient" : " result");
        expect_close(npu[at], cpu[at], row.tolerance, what);
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << row.operators << ": " << std::string(error.what()).substr(0, 400);
    }
    for (const auto& [name, count] : before)
      EXPECT_GT(calls(name), count) << name << " was not called";
  }
}

}  // namespace npu_test
