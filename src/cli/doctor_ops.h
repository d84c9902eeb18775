// `titan doctor --ops`: which kernel each op of ops/ really runs on a device, found by running it
// and listening to libtorch's dispatcher, and how far its result and gradients are from the op's
// reference.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace titan::cli {

struct OpFact {
  std::string op;
  std::string device;                // "cpu", "cuda:0"
  std::string dtype;                 // "float32"
  std::vector<std::string> forward;  // kernels of the dispatcher; empty: titan's own kernel
  std::vector<std::string> backward;
  double forward_difference = 0;   // relative, over the whole result
  double gradient_difference = 0;  // relative, the worst of the op's gradients
  bool agrees = false;             // both within what the dtype allows
};

// Runs each op forward and backward in float32 and bfloat16 on `device`. Small tensors; some 10 ms
// after warming up. A kernel that throws is reported by its message in `forward`, with agrees =
// false.
std::vector<OpFact> probe_ops(c10::Device device);

}  // namespace titan::cli
