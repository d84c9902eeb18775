// The titan side of bench/npu_host_time.py: training steps of a small Llama on an emulated NPU
// whose operators do nothing. Prints one JSON object: for each step the host's CPU time and the
// number of launched operators.
//   npu_host_time LAYERS TOKENS STEPS
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <torch_npu/csrc/core/npu/NPUFunctions.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "models/registry.h"
#include "ops/recompute.h"
#include "train/assembly.h"
#include "train/step.h"

namespace {

// Nanoseconds that the threads which launch work have run: the main one and autograd's.
int64_t host_ns() {
  int64_t total = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const int number = std::stoi(task.path().filename());
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (number != getpid() && !name.starts_with("pt_autograd")) continue;
    timespec ran{};
    // The kernel's number of a thread's CPU clock, as pthread_getcpuclockid() makes it.
    if (clock_gettime((~number << 3) | 6, &ran) == 0)
      total += ran.tv_sec * 1000000000 + ran.tv_nsec;
  }
  return total;
}

}  // namespace

int main(int, char** words) {
  using namespace titan;
  at::globalContext().lazyInitDevice(c10::kPrivateUse1);
  const at::Device device(c10::kPrivateUse1, 0);
  c10_npu::set_device(0);
  ops::install_saved_tensor_hooks();
  const auto launched =
      reinterpret_cast<uint64_t (*)(const char*)>(dlsym(RTLD_DEFAULT, "cannemu_count_prefix"));
  config::Model model;
  model.name = "llama3";
  model.flavor = "debugmodel";
  auto args = models::resolve(model, std::stol(words[2]));
  args.num_layers = std::stol(words[1]);
  args.vocab_size = 2048;
  auto state = train::assemble(args, {}, {.device = device, .seed = 1});
  state.max_norm = 1;
  state.lr.fill_(1e-4);
  const auto tokens = at::zeros({1, std::stol(words[2])}, at::TensorOptions(at::kLong)).to(device);
  state.inverse_valid_tokens.fill_(1.0 / static_cast<double>(tokens.numel()));
  const std::vector<train::MicroBatch> batch{{tokens, tokens}};
  std::cout << "{\"steps\": [";
  for (int64_t step = 0; step < std::stol(words[3]); ++step) {
    c10_npu::npuSynchronizeDevice();
    const int64_t begin = host_ns();
    const uint64_t before = launched("aclnn");
    train::train_step(state, batch);
    const int64_t end = host_ns();
    c10_npu::npuSynchronizeDevice();
    std::cout << (step ? ", " : "") << "[" << end - begin << ", " << launched("aclnn") - before
              << "]";
  }
  std::cout << "]}" << std::endl;
  _exit(0);
}
