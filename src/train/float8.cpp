#include "train/float8.h"

#include <algorithm>

#include "base/error.h"
#include "ops/block_halves.h"

namespace titan::train {
namespace {

constexpr int64_t kMultiple = 16;  // of every size of a float8 product

bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::ranges::find(list, word) != list.end();
}

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(
      "[quantize] float8 products are not possible: {} — remove quantize.linear.float8 from "
      "model.converters",
      reason);
}

}  // namespace

std::function<bool(const std::string&)> float8_layers(const config::JobConfig& config,
                                                      const models::ModelArgs& args,
                                                      const comm::MeshShape& shape,
                                                      at::Device device,
                                                      at::ScalarType compute_dtype) {
  if (!contains(config.model.converters, "quantize.linear.float8")) return nullptr;
  if (!device.is_cuda()) refuse(fmt::format("the device is a {}, they need a GPU", device.str()));
  if (const auto reason = ops::float8_refusal(device); !reason.empty()) refuse(reason);
  if (compute_dtype != at::kBFloat16 && compute_dtype != at::kHalf) {
    refuse("training.mixed_precision_param is float32, they are made of 16-bit values");
  }
  if (shape.tp > 1 || shape.cp > 1 || shape.pp > 1) {
    refuse("they are built for data parallelism only");
  }
  if (args.qk_norm || args.block_causal) {
    refuse("they are built for causal attention without a norm of queries and keys");
  }
  const int64_t tokens = config.training.local_batch_size * config.training.seq_len;
  const std::pair<const char*, int64_t> sizes[] = {
      {"the tokens of a micro-batch", tokens},
      {"dim", args.dim},
      {"the hidden dimension", args.hidden_dim},
      {"heads times head_dim", args.num_heads * args.head_dim},
      {"key-value heads times head_dim", args.num_kv_heads * args.head_dim}};
  for (const auto& [name, size] : sizes) {
    if (size % kMultiple != 0) {
      refuse(fmt::format("{} = {} is no multiple of {}", name, size, kMultiple));
    }
  }
  return [filters = config.quantize.linear.float8.filter_fqns](const std::string& module) {
    return std::ranges::none_of(
        filters, [&](const std::string& part) { return module.find(part) != std::string::npos; });
  };
}

}  // namespace titan::train
