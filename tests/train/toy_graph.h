// A device graph of the CPU, for tests of captured steps where no accelerator is: what a thread
// calls below autograd while it records is kept with its operands, undone at the
// end, and called again by replay(), into the tensors that it gave. Like a real one it refuses to
// give values to the host. Kernels that titan calls past the dispatcher (float32 on the CPU) cannot
// be recorded: steps are to be of float64.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "device/backend.h"

namespace titan::train {

class ToyGraph : public device::Graph {
 public:
  // What is to go wrong; the count of calls is from 1.
  struct Faults {
    bool at_begin = false, at_end = false;
    int64_t at_call = 0;
  };

  explicit ToyGraph(std::shared_ptr<Faults> faults = std::make_shared<Faults>())
      : faults_(std::move(faults)) {}
  ~ToyGraph() override { undo(); }

  void begin() override {
    if (faults_->at_begin) throw std::runtime_error("the toy cannot begin");
    calls_.clear();
    broken_ = false;
    current() = this;
    included_ = std::make_unique<c10::impl::IncludeDispatchKeyGuard>(kKey);
  }
  void end() override {
    const bool recording = included_ != nullptr;
    undo();
    if (!recording || broken_ || faults_->at_end)
      throw std::runtime_error("the toy's record is void");
    recorded_ = true;
  }
  void replay() override {
    if (!recorded_) throw std::runtime_error("the toy has recorded nothing");
    const at::NoGradGuard no_grad;
    for (const Call& call : calls_) {
      torch::jit::Stack stack = call.arguments;
      call.op.callBoxed(stack);
      for (size_t i = 0; i < stack.size(); ++i) write_again(call.results[i], stack[i]);
    }
  }
  void reset() override {
    undo();
    calls_.clear();
    recorded_ = false;
    ++resets_;
  }

  int64_t calls() const { return static_cast<int64_t>(calls_.size()); }
  int64_t resets() const { return resets_; }

  // Recording is on while one of these lives.
  static std::unique_ptr<torch::Library> hook() {
    auto library =
        std::make_unique<torch::Library>(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
    library->fallback(torch::CppFunction::makeFromBoxedFunction<&ToyGraph::called>());
    return library;
  }

 private:
  static constexpr auto kKey = c10::DispatchKey::Fake;

  struct Call {
    c10::OperatorHandle op;
    torch::jit::Stack arguments, results;
  };

  static ToyGraph*& current() {
    thread_local ToyGraph* graph = nullptr;
    return graph;
  }

  static void called(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const c10::impl::ExcludeDispatchKeyGuard inner(kKey);
    current()->record(op, *stack);
  }

  void record(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
    const auto& schema = op.schema();
    const std::string& name = schema.name();
    if (name == "aten::item" || name == "aten::_local_scalar_dense") {
      broken_ = true;
      throw std::runtime_error("the toy gives no value to the host");
    }
    if (faults_->at_call == calls() + 1) {
      broken_ = true;
      throw std::runtime_error("the toy refuses " + name);
    }
    const size_t count = schema.arguments().size();
    torch::jit::Stack arguments(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end());
    for (size_t i = 0; i < count; ++i) {
      if (writes(schema.arguments()[i])) each(arguments[i], [&](const at::Tensor& x) { keep(x); });
    }
    op.callBoxed(stack);
    std::vector<at::Tensor> given;
    for (const auto& argument : arguments) {
      each(argument, [&](const at::Tensor& x) { given.push_back(x); });
    }
    for (const auto& result : stack) {
      each(result, [&](const at::Tensor& x) {
        const bool is_view =
            std::ranges::any_of(given, [&](const at::Tensor& y) { return y.is_alias_of(x); });
        if (!is_view) made_here_.push_back(x);
      });
    }
    calls_.push_back({op, std::move(arguments), stack});
  }

  // To the argument, or to the tensors of a list.
  static bool writes(const c10::Argument& argument) {
    const auto* alias = argument.alias_info();
    return alias && (alias->isWrite() ||
                     std::ranges::any_of(alias->containedTypes(), &c10::AliasInfo::isWrite));
  }

  template <class Function>
  static void each(const c10::IValue& value, Function function) {
    if (value.isTensor()) {
      if (value.toTensor().defined()) function(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& x : value.toTensorVector()) function(x);
    }
  }

  // Its value from before the recording, unless it was made in it.
  void keep(const at::Tensor& x) {
    const auto same = [&](const at::Tensor& other) { return other.is_alias_of(x); };
    for (const auto& other : made_here_) {
      if (same(other)) return;
    }
    for (const auto& [other, value] : before_) {
      if (other.is_same(x)) return;
    }
    const at::NoGradGuard no_grad;
    before_.emplace_back(x, x.detach().clone());
  }

  void undo() {
    included_.reset();
    current() = nullptr;
    const at::NoGradGuard no_grad;
    for (auto place = before_.rbegin(); place != before_.rend(); ++place) {
      place->first.detach().copy_(place->second);
    }
    before_.clear();
    made_here_.clear();
  }

  static void write_again(const c10::IValue& into, const c10::IValue& from) {
    std::vector<at::Tensor> ours, theirs;
    each(into, [&](const at::Tensor& x) { ours.push_back(x); });
    each(from, [&](const at::Tensor& x) { theirs.push_back(x); });
    for (size_t i = 0; i < ours.size(); ++i) {
      if (!ours[i].is_alias_of(theirs[i])) ours[i].detach().copy_(theirs[i].detach());
    }
  }

  std::shared_ptr<Faults> faults_;
  std::unique_ptr<c10::impl::IncludeDispatchKeyGuard> included_;
  std::vector<Call> calls_;
  std::vector<std::pair<at::Tensor, at::Tensor>> before_;
  std::vector<at::Tensor> made_here_;
  bool broken_ = false, recorded_ = false;
  int64_t resets_ = 0;
};

}  // namespace titan::train
