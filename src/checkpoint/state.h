// What a checkpoint is made of: named tensors, in two parts, and one small JSON object.
// Names are the unfused, unpadded global names of the parameters ("layers.0.attention.wq.weight");
// the state that an optimizer keeps for one is "optimizer.<state>.<name>". No rank, mesh or padding
// appears in a name or a shape.
#pragma once

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/placement.h"

namespace titan::checkpoint {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  // Which part of the named tensor `tensor` is; nullopt: the whole.
  std::optional<comm::Placement> placement = std::nullopt;

  std::vector<int64_t> shape() const { return placement ? placement->shape : tensor.sizes().vec(); }
  // What `tensor` is of `whole`, which has shape().
  at::Tensor part_of(const at::Tensor& whole) const {
    return placement ? placement->part.of(whole) : whole;
  }
};

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
};

enum class Part { kModel, kOptimizer };

inline constexpr std::string_view kOptimizerPrefix = "optimizer.";

// "optimizer.exp_avg.layers.0.attention.wq.weight" of ("exp_avg", "layers.0.attention.wq.weight").
std::string optimizer_name(std::string_view state, std::string_view parameter);
Part part_of(std::string_view name);

// Members of a step's state that titan's tools look for.
inline constexpr const char* kModelArgsKey = "model_args";   // models::args_to_json
inline constexpr const char* kAssetsKey = "hf_assets_path";  // where the tokenizer's files are

struct Snapshot {
  std::vector<NamedTensor> model;
  std::vector<NamedTensor>
      optimizer;  // empty in a model-only checkpoint; names made by optimizer_name()
  nlohmann::json state =
      nlohmann::json::object();  // step, tokens, data position, RNG, config; finite numbers only
};

// A one-dimensional uint8 tensor (an RNG state) as hexadecimal text and back; decode throws Error
// on other text.
std::string encode_bytes(const at::Tensor& bytes);
at::Tensor decode_bytes(std::string_view hex);

}  // namespace titan::checkpoint
