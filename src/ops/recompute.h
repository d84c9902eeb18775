// Recomputation of activations (Chen et al. 2016, arXiv 1604.06174) on libtorch's saved-tensor
// hooks. A region's saved tensors are replaced by indices; the first one that the backward pass
// asks for runs the region again, with gradient recording on, and hands out the tensors saved then.
// Ops decide with Replay what a selective region keeps.
#pragma once

#include <ATen/ATen.h>

#include <functional>

namespace titan::ops {

// What a region holds on to between forward and backward.
enum class Kept {
  kNothing,    // all is recomputed ("full")
  kExpensive,  // outputs of matmuls and attention are kept; norms, SwiGLU and rotations are
               // recomputed ("op")
};

// What an op's output is for when its region runs again.
enum class Replay {
  kOutputNeeded,  // kept in a selective region, else computed again
  kOutputUnused,  // nothing later in the region saves anything that depends on it
  kInputOfKept,   // only read by an op whose own output a selective region keeps
};

// The engine hook behind all this. Call once after the devices are initialised: whoever installs an
// engine later would replace it. hooks_installed() is asserted before the first step.
void install_saved_tensor_hooks();
bool saved_tensor_hooks_installed();

// Something that can stand in for tensors that the graph saves: FSDP's gathered parameters, which
// are gathered again when they are asked for.
class SavedTensorStore {
 public:
  virtual ~SavedTensorStore() = default;
  // How to get `x` back later; null when it is not one of its tensors. The result runs on the
  // thread of the backward pass.
  virtual std::function<at::Tensor()> handle(const at::Tensor& x) = 0;
};

// For all tensors that this thread's graphs save from now on; null: none.
void use_saved_tensor_store(SavedTensorStore* store);

// True while a region runs for the second time on this thread.
bool is_replaying();

// body(x), recomputed in the backward pass. body must be a pure function of x and of tensors that
// do not change before the backward pass; it runs a second time on the thread that runs the
// backward pass.
at::Tensor recompute(const std::function<at::Tensor(const at::Tensor&)>& body, const at::Tensor& x,
                     Kept kept);

// For ops. The output of `compute`, or what the region kept or may leave out of it. Call with
// gradient recording off.
at::Tensor output_for_replay(Replay replay, at::IntArrayRef shape, const at::Tensor& like,
                             const std::function<at::Tensor()>& compute);

// For ops made of one libtorch call with its own gradient (attention): in a selective region the
// call's saved tensors and its output are kept and the call does not happen again. One within
// another is part of it.
at::Tensor kept_call(const std::function<at::Tensor()>& call);

}  // namespace titan::ops
