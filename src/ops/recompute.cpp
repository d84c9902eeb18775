#include "ops/recompute.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <vector>

#include "base/error.h"

namespace titan::ops {
namespace {

using at::Tensor;

// A region's memory. `saved` is empty until the first tensor is asked for; ids are the order of
// saving, which the second run repeats.
struct Frame {
  std::function<Tensor(const Tensor&)> body;
  Tensor input;
  Kept kept = Kept::kNothing;
  std::vector<int64_t> saved_numels;  // of the first run, in order
  std::vector<Tensor>
      outputs;  // kept outputs in order of calls (variable_data: no graph, hence no cycle)
  std::vector<Tensor> saved;  // filled by the second run
  bool replayed = false;
};

// What the current thread is doing: nothing, a region's first run, or its second.
struct Activity {
  std::shared_ptr<Frame> frame;
  bool replaying = false;
  bool keep_saved = false;  // inside kept_call()'s first run
  size_t next_output = 0;
};

Activity& activity() {
  thread_local Activity current;
  return current;
}

class ActivityScope {
 public:
  explicit ActivityScope(Activity next) : previous_(std::exchange(activity(), std::move(next))) {}
  ~ActivityScope() { activity() = std::move(previous_); }
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

 private:
  Activity previous_;
};

void replay(const std::shared_ptr<Frame>& frame) {
  TITAN_CHECK(!frame->replayed, "a recomputed region was asked for a tensor after its second run");
  frame->replayed = true;
  at::AutoGradMode with_gradients(true);
  const ActivityScope scope({.frame = frame, .replaying = true});
  const Tensor input = frame->input.detach().set_requires_grad(frame->input.requires_grad());
  frame->body(input);
  TITAN_CHECK(frame->saved.size() == frame->saved_numels.size(),
              "a recomputed region saved {} tensors, its first run saved {}", frame->saved.size(),
              frame->saved_numels.size());
  for (size_t i = 0; i < frame->saved.size(); ++i) {
    TITAN_CHECK(frame->saved[i].numel() == frame->saved_numels[i],
                "tensor {} that a recomputed region saved has {} elements, in its first run {}", i,
                frame->saved[i].numel(), frame->saved_numels[i]);
  }
  TITAN_CHECK(activity().next_output == frame->outputs.size(),
              "a recomputed region asked for {} kept outputs, its first run kept {}",
              activity().next_output, frame->outputs.size());
  frame->body = nullptr;
  frame->outputs.clear();
}

// Hook of the first run: holds the region and an index instead of the tensor.
class IndexHook : public torch::autograd::SavedVariableHooks {
 public:
  explicit IndexHook(std::shared_ptr<Frame> frame) : frame_(std::move(frame)) {}
  void call_pack_hook(const Tensor& tensor) override {
    index_ = static_cast<int64_t>(frame_->saved_numels.size());
    frame_->saved_numels.push_back(tensor.numel());
  }
  Tensor call_unpack_hook() override {
    if (!frame_->replayed) replay(frame_);
    Tensor& slot = frame_->saved[static_cast<size_t>(index_)];
    TITAN_CHECK(slot.defined(), "a recomputed tensor was asked for twice");
    return std::move(slot);
  }

 private:
  std::shared_ptr<Frame> frame_;
  int64_t index_ = -1;
};

// Hook of the second run: hands the tensor to the region. The graph recorded in that run is never
// walked.
class CollectHook : public torch::autograd::SavedVariableHooks {
 public:
  explicit CollectHook(std::shared_ptr<Frame> frame) : frame_(std::move(frame)) {}
  void call_pack_hook(const Tensor& tensor) override { frame_->saved.push_back(tensor); }
  Tensor call_unpack_hook() override {
    throw InternalError("[internal] backward through a recomputed region's second run");
  }

 private:
  std::shared_ptr<Frame> frame_;
};

SavedTensorStore*& saved_tensor_store() {
  thread_local SavedTensorStore* store = nullptr;
  return store;
}

// Hook where a store is in use: keeps its handle, or the tensor.
class StoreHook : public torch::autograd::SavedVariableHooks {
 public:
  explicit StoreHook(SavedTensorStore* store) : store_(store) {}
  void call_pack_hook(const Tensor& tensor) override {
    handle_ = store_->handle(tensor);
    if (!handle_) tensor_ = tensor.detach();
  }
  Tensor call_unpack_hook() override { return handle_ ? handle_() : tensor_; }

 private:
  SavedTensorStore* store_;
  std::function<Tensor()> handle_;
  Tensor tensor_;
};

class HookedEngine : public torch::autograd::Engine {
 public:
  static Engine& get() {
    static auto* const engine =
        new HookedEngine;  // never destroyed: device threads may outlive static destructors
    return *engine;
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    const Activity& now = activity();
    if (!now.frame || now.keep_saved) {
      SavedTensorStore* store = saved_tensor_store();
      return store ? std::make_unique<StoreHook>(store) : nullptr;
    }
    if (now.replaying) return std::make_unique<CollectHook>(now.frame);
    return std::make_unique<IndexHook>(now.frame);
  }
};

Tensor next_kept_output(Activity& now) {
  TITAN_CHECK(now.next_output < now.frame->outputs.size(),
              "a recomputed region asked for more kept outputs than the {} of its first run",
              now.frame->outputs.size());
  return std::move(now.frame->outputs[now.next_output++]);
}

}  // namespace

void install_saved_tensor_hooks() { torch::autograd::set_default_engine_stub(&HookedEngine::get); }

bool saved_tensor_hooks_installed() {
  return &torch::autograd::Engine::get_default_engine() == &HookedEngine::get();
}

void use_saved_tensor_store(SavedTensorStore* store) { saved_tensor_store() = store; }

bool is_replaying() { return activity().replaying; }

Tensor recompute(const std::function<Tensor(const Tensor&)>& body, const Tensor& x, Kept kept) {
  if (!at::GradMode::is_enabled()) return body(x);
  TITAN_CHECK(saved_tensor_hooks_installed(), "recomputation without install_saved_tensor_hooks()");
  TITAN_CHECK(!activity().frame, "recomputed regions do not nest");
  auto frame = std::make_shared<Frame>();
  frame->body = body;
  frame->input = x;
  frame->kept = kept;
  const ActivityScope scope({.frame = frame});
  return body(x);
}

Tensor output_for_replay(Replay replay, at::IntArrayRef shape, const Tensor& like,
                         const std::function<Tensor()>& compute) {
  Activity& now = activity();
  if (!now.frame) return compute();
  const bool selective = now.frame->kept == Kept::kExpensive;
  const bool unused =
      replay == Replay::kOutputUnused || (selective && replay == Replay::kInputOfKept);
  const bool keep = selective && replay == Replay::kOutputNeeded;
  if (now.replaying) {
    if (unused) return at::empty(shape, like.options());
    return keep ? next_kept_output(now) : compute();
  }
  Tensor output = compute();
  if (keep) now.frame->outputs.push_back(output.variable_data());
  return output;
}

Tensor kept_call(const std::function<Tensor()>& call) {
  Activity& now = activity();
  if (!now.frame || now.frame->kept != Kept::kExpensive) return call();
  if (now.keep_saved) return call();  // inside another kept call, which keeps it all
  if (now.replaying) return next_kept_output(now).set_requires_grad(true);
  now.keep_saved = true;
  Tensor output = call();
  now.keep_saved = false;
  now.frame->outputs.push_back(output.variable_data());
  return output;
}

}  // namespace titan::ops
