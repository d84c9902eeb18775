#include "cli/doctor_ops.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

#include "ops/attention.h"
#include "ops/cross_entropy.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/swiglu.h"

namespace titan::cli {
namespace {

using at::Tensor;

// Operators that make, move or look at memory; what is left computes.
bool is_bookkeeping(std::string_view name) {
  constexpr std::string_view kNames[] = {"alias",
                                         "as_strided",
                                         "chunk",
                                         "clone",
                                         "contiguous",
                                         "copy_",
                                         "detach",
                                         "empty",
                                         "empty_like",
                                         "empty_strided",
                                         "expand",
                                         "expand_as",
                                         "fill_",
                                         "flatten",
                                         "full",
                                         "full_like",
                                         "is_nonzero",
                                         "item",
                                         "lift_fresh",
                                         "narrow",
                                         "new_empty",
                                         "new_zeros",
                                         "ones",
                                         "ones_like",
                                         "permute",
                                         "repeat_interleave",
                                         "reshape",
                                         "resize_",
                                         "result_type",
                                         "select",
                                         "set_",
                                         "slice",
                                         "split",
                                         "squeeze",
                                         "t",
                                         "to",
                                         "transpose",
                                         "unbind",
                                         "unflatten",
                                         "unsqueeze",
                                         "view",
                                         "view_as",
                                         "zero_",
                                         "zeros",
                                         "zeros_like",
                                         "_local_scalar_dense",
                                         "_reshape_alias",
                                         "_to_copy",
                                         "_unsafe_view",
                                         "_version",
                                         "detach_",
                                         "view_as_real",
                                         "view_as_complex",
                                         "resolve_conj",
                                         "promote_types"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

// What has been heard; travels with the work to libtorch's backward threads.
struct Heard : c10::DebugInfoBase {
  std::mutex mutex;
  int64_t finished = 0;  // computing operators that have ended
  std::vector<std::string> kernels;
};

struct Call : at::ObserverContext {
  int64_t finished_before = 0;
};

Heard* current_heard() {
  return static_cast<Heard*>(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::TEST_INFO));
}

std::unique_ptr<at::ObserverContext> begin_call(const at::RecordFunction&) {
  auto call = std::make_unique<Call>();
  if (Heard* heard = current_heard()) {
    const std::lock_guard lock(heard->mutex);
    call->finished_before = heard->finished;
  }
  return call;
}

void end_call(const at::RecordFunction& function, at::ObserverContext* context) {
  Heard* heard = current_heard();
  const std::string full = function.name();
  const size_t colons = full.find("::");
  if (!heard || colons == std::string::npos || full.starts_with("autograd::"))
    return;  // a node, not an operator
  const std::string name = full.starts_with("aten::") ? full.substr(colons + 2) : full;
  if (is_bookkeeping(name)) return;
  const std::lock_guard lock(heard->mutex);
  const bool has_inner = heard->finished > static_cast<Call*>(context)->finished_before;
  ++heard->finished;
  const bool known = std::ranges::find(heard->kernels, name) != heard->kernels.end();
  if (!has_inner && !known) heard->kernels.push_back(name);
}

// The innermost computing operators that this thread's work runs while it lives, each once, in
// order.
class Listener {
 public:
  Listener()
      : heard_(std::make_shared<Heard>()),
        carrier_(c10::DebugInfoKind::TEST_INFO, heard_),
        handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(&begin_call, &end_call)
                .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}))) {}
  ~Listener() { at::removeCallback(handle_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  std::vector<std::string> take() {
    const std::lock_guard lock(heard_->mutex);
    return std::exchange(heard_->kernels, {});
  }

 private:
  std::shared_ptr<Heard> heard_;
  c10::DebugInfoGuard carrier_;
  at::CallbackHandle handle_;
};

using Run = std::function<Tensor(const std::vector<Tensor>&)>;

struct Probe {
  const char* op;
  Run fused;
  Run reference;
  std::vector<Tensor> inputs;  // float32, on the device; every one gets a gradient
};

// Values that do not depend on libtorch's generators, between -1 and 1. Scattered, not a wave:
// products of waves cancel to almost nothing, and a relative difference of that says nothing.
Tensor values(at::IntArrayRef shape, c10::Device device, double frequency) {
  const int64_t count = c10::multiply_integers(shape);
  return at::arange(count, at::TensorOptions().dtype(at::kFloat))
      .mul(frequency)
      .sin()
      .mul(1e4)
      .sin()
      .reshape(shape)
      .to(device);
}

std::vector<Probe> make_probes(c10::Device device) {
  constexpr int64_t kBatch = 2, kTokens = 64, kHeads = 4, kKvHeads = 2, kHeadDim = 32, kDim = 128,
                    kVocab = 512;
  const auto input = [&](std::initializer_list<int64_t> shape, double frequency) {
    return values(shape, device, frequency);
  };
  const Tensor angles = values({kTokens, kHeadDim / 2}, device, 0.37);
  const Tensor cos = angles.cos(), sin = angles.sin();
  const Tensor labels =
      at::arange(kTokens, at::TensorOptions().dtype(at::kLong)).mul(7).remainder(kVocab).to(device);
  const Tensor scale =
      at::full({}, 1.0 / kTokens, at::TensorOptions().dtype(at::kFloat).device(device));
  std::vector<Probe> probes;
  probes.push_back({"linear",
                    [](const auto& in) { return ops::linear(in[0], in[1]); },
                    [](const auto& in) { return at::matmul(in[0], in[1].t()); },
                    {input({kTokens, kDim}, 0.71), input({kDim, kDim}, 0.13)}});
  probes.push_back({"rms_norm",
                    [](const auto& in) { return ops::rms_norm(in[0], in[1], 1e-5); },
                    [](const auto& in) { return ops::reference::rms_norm(in[0], in[1], 1e-5); },
                    {input({kBatch, kTokens, kDim}, 0.71), input({kDim}, 0.29)}});
  probes.push_back({"rope",
                    [=](const auto& in) { return ops::rope(in[0], cos, sin, true); },
                    [=](const auto& in) { return ops::reference::rope(in[0], cos, sin, true); },
                    {input({kBatch, kTokens, kHeads, kHeadDim}, 0.71)}});
  probes.push_back({"attention",
                    [](const auto& in) { return ops::attention(in[0], in[1], in[2]); },
                    [](const auto& in) { return ops::reference::attention(in[0], in[1], in[2]); },
                    {input({kBatch, kHeads, kTokens, kHeadDim}, 0.71),
                     input({kBatch, kKvHeads, kTokens, kHeadDim}, 0.43),
                     input({kBatch, kKvHeads, kTokens, kHeadDim}, 0.19)}});
  probes.push_back({"swiglu",
                    [](const auto& in) { return ops::swiglu(in[0], in[1]); },
                    [](const auto& in) { return ops::reference::swiglu(in[0], in[1]); },
                    {input({kTokens, kDim}, 0.71), input({kTokens, kDim}, 0.43)}});
  probes.push_back(
      {"cross_entropy",
       [=](const auto& in) { return ops::linear_cross_entropy(in[0], in[1], labels, scale); },
       [=](const auto& in) {
         return ops::reference::linear_cross_entropy(in[0], in[1], labels, scale);
       },
       {input({kTokens, kDim}, 0.71), input({kVocab, kDim}, 0.13)}});
  return probes;
}

double relative_difference(const Tensor& value, const Tensor& expected) {
  const Tensor wide = expected.to(at::kCPU, at::kDouble);
  return (value.to(at::kCPU, at::kDouble) - wide).norm().item<double>() /
         (wide.norm().item<double>() + 1e-30);
}

struct Outcome {
  Tensor result;
  std::vector<Tensor> gradients;
};

// Leaves of `dtype`, the op, and a backward pass from a fixed gradient. `between` is called when
// the forward pass is done. The output's gradient is the cosine of `seed_of`, or of the output
// itself when that is undefined.
Outcome run_op(const Run& op, const std::vector<Tensor>& inputs, c10::ScalarType dtype,
               const Tensor& seed_of, const std::function<void()>& between) {
  std::vector<Tensor> leaves;
  for (const auto& input : inputs)
    leaves.push_back(input.to(dtype).detach().clone().requires_grad_(true));
  const Tensor result = op(leaves);
  between();
  const Tensor source = seed_of.defined() ? seed_of : result.detach();
  const Tensor seed =
      result.dim() == 0 ? at::ones_like(result) : source.cos().to(result.scalar_type());
  result.backward(seed);
  Outcome outcome{.result = result.detach(), .gradients = {}};
  for (const auto& leaf : leaves) outcome.gradients.push_back(leaf.grad());
  return outcome;
}

// float32 differs by the order of sums; a bfloat16 value has 8 bits, and a gradient passes through
// a few roundings.
double tolerance(c10::ScalarType dtype) { return dtype == at::kFloat ? 1e-4 : 3e-2; }

OpFact probe_op(const Probe& probe, c10::Device device, c10::ScalarType dtype) {
  OpFact fact{.op = probe.op,
              .device = device.str(),
              .dtype = dtype == at::kFloat ? "float32" : "bfloat16",
              .forward = {},
              .backward = {}};
  try {
    // The reference gets the same rounded inputs and computes in float32, so it is right where
    // bfloat16 is coarse.
    std::vector<Tensor> rounded;
    for (const auto& input : probe.inputs) rounded.push_back(input.to(dtype).to(at::kFloat));
    const Outcome expected = run_op(probe.reference, rounded, at::kFloat, Tensor(), [] {});
    Outcome fused;
    {
      Listener listener;
      fused = run_op(probe.fused, probe.inputs, dtype, expected.result,
                     [&] { fact.forward = listener.take(); });
      fact.backward = listener.take();
    }
    fact.forward_difference = relative_difference(fused.result.to(at::kFloat), expected.result);
    for (size_t i = 0; i < fused.gradients.size(); ++i) {
      fact.gradient_difference = std::max(
          fact.gradient_difference, relative_difference(fused.gradients[i], expected.gradients[i]));
    }
    fact.agrees =
        fact.forward_difference < tolerance(dtype) && fact.gradient_difference < tolerance(dtype);
  } catch (const c10::Error& error) {
    const std::string reason = error.what_without_backtrace();
    fact.forward = {"failed: " + reason.substr(0, reason.find('\n'))};
  }
  return fact;
}

}  // namespace

std::vector<OpFact> probe_ops(c10::Device device) {
  std::vector<OpFact> facts;
  const std::vector<Probe> probes = make_probes(device);
  for (const c10::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const auto& probe : probes) facts.push_back(probe_op(probe, device, dtype));
  }
  return facts;
}

}  // namespace titan::cli
