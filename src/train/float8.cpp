#include "train/float8.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"

namespace titan::train {
namespace {

constexpr int64_t kMultiple = 16;  // of every size of a float8 product
constexpr const char* kAutoFilter = "auto_filter_small_kn";

// A product as it is computed: weights that are read as one matrix count together.
struct Layer {
  const char* module;
  int64_t out, in;            // of the whole product
  int64_t rank_out, rank_in;  // what this layer's sizes on a rank are multiples of
};

[[noreturn]] void refuse(const std::string& reason, const std::string& remedy) {
  throw Error("[quantize] float8 products are not possible: {} — {}", reason, remedy);
}
constexpr const char* kWithout = "remove quantize.linear.float8 from model.converters";

ops::Float8Recipe recipe_of(const config::JobConfig& config) {
  const auto& float8 = config.quantize.linear.float8;
  const std::string name = float8.recipe_name.value_or("tensorwise");
  ops::Float8Recipe recipe{.emulate = float8.emulate};
  if (name == "rowwise") recipe.scaling = ops::Float8Scaling::kRowwise;
  if (name == "rowwise_with_gw_hp") {
    recipe.scaling = ops::Float8Scaling::kRowwiseWithWideWeightGradient;
  }
  return recipe;
}

std::array<Layer, 8> layers_of(const models::ModelArgs& args, int64_t tp) {
  const int64_t queries = args.num_heads * args.head_dim, keys = args.num_kv_heads * args.head_dim,
                qkv = queries + 2 * keys;
  // Heads, hidden units and the vocabulary are dealt to the tensor-parallel ranks.
  const auto dealt = [&](int64_t size) { return tp == 1 ? size : size % tp == 0 ? size / tp : 1; };
  const auto heads = [&](int64_t size) { return tp == 1 ? size : args.head_dim; };
  const int64_t hidden = args.hidden_dim;
  return {{{"wq", qkv, args.dim, heads(queries), args.dim},
           {"wk", qkv, args.dim, heads(keys), args.dim},
           {"wv", qkv, args.dim, heads(keys), args.dim},
           {"wo", args.dim, queries, args.dim, heads(queries)},
           {"w1", 2 * hidden, args.dim, dealt(hidden), args.dim},
           {"w3", 2 * hidden, args.dim, dealt(hidden), args.dim},
           {"w2", args.dim, hidden, args.dim, dealt(hidden)},
           {"output", args.vocab_size, args.dim, dealt(args.vocab_size), args.dim}}};
}

// The thresholds of torchao's float8 filter, measured there on an H100.
bool is_small(const Layer& layer, ops::Float8Scaling scaling) {
  if (scaling == ops::Float8Scaling::kTensorwise) return layer.in <= 4096 && layer.out <= 1024;
  return layer.out <= 2048 || layer.in <= 1024 || (layer.out <= 4096 && layer.in <= 2048);
}

void check_hardware(const config::JobConfig& config, const ops::Float8Recipe& recipe,
                    const comm::MeshShape& shape, at::Device device, at::ScalarType compute_dtype) {
  const std::string emulate =
      std::string(
          "quantize.linear.float8.emulate = true rounds to float8 and multiplies in "
          "float32, to see what it does to a model; else ") +
      kWithout;
  if (!device.is_cuda()) {
    refuse(fmt::format("the device is a {}, they need a GPU", device.str()), emulate);
  }
  if (const auto reason = ops::float8_refusal(device); !reason.empty()) refuse(reason, emulate);
  if (recipe.scaling != ops::Float8Scaling::kTensorwise) {
    refuse("rowwise scales are built for quantize.linear.float8.emulate only",
           "take recipe_name = \"tensorwise\", or emulate");
  }
  if (compute_dtype != at::kBFloat16 && compute_dtype != at::kHalf) {
    refuse("training.mixed_precision_param is float32, they are made of 16-bit values", kWithout);
  }
  const int64_t tokens = config.training.local_batch_size * config.training.seq_len / shape.cp;
  if (tokens % kMultiple != 0) {
    refuse(fmt::format("a micro-batch of {} tokens is no multiple of {}", tokens, kMultiple),
           "change training.local_batch_size or training.seq_len");
  }
}

}  // namespace

Float8Layers float8_layers(const config::JobConfig& config, const models::ModelArgs& args,
                           const comm::MeshShape& shape, at::Device device,
                           at::ScalarType compute_dtype) {
  const auto& converters = config.model.converters;
  if (std::ranges::find(converters, "quantize.linear.float8") == converters.end()) return nullptr;
  const auto recipe = recipe_of(config);
  if (!recipe.emulate) check_hardware(config, recipe, shape, device, compute_dtype);
  if (shape.tp > 1 && config.parallelism.enable_async_tensor_parallel) {
    refuse(
        "parallelism.enable_async_tensor_parallel takes products apart, whose parts would have "
        "scales of their own",
        "set it to false");
  }
  return [recipe, layers = layers_of(args, shape.tp),
          filters = config.quantize.linear.float8.filter_fqns](
             const std::string& module) -> std::optional<ops::Float8Recipe> {
    const std::string leaf = module.substr(module.rfind('.') + 1);
    const auto layer = std::ranges::find(layers, leaf, [](const Layer& l) { return l.module; });
    if (layer == layers.end()) return std::nullopt;
    if (layer->rank_out % kMultiple != 0 || layer->rank_in % kMultiple != 0) return std::nullopt;
    for (const auto& word : filters) {
      if (word == kAutoFilter ? is_small(*layer, recipe.scaling)
                              : module.find(word) != std::string::npos) {
        return std::nullopt;
      }
    }
    return recipe;
  };
}

std::string describe(const Float8Layers& layers) {
  std::vector<std::string> taken, left;
  std::optional<ops::Float8Recipe> recipe;
  for (const char* module : {"attention.wq", "attention.wk", "attention.wv", "attention.wo",
                             "feed_forward.w1", "feed_forward.w2", "feed_forward.w3", "output"}) {
    const std::string name = module;
    const auto of_module = layers(name == "output" ? name : "layers.0." + name);
    (of_module ? taken : left).push_back(name.substr(name.rfind('.') + 1));
    if (of_module) recipe = of_module;
  }
  if (taken.empty()) return "no linear layer: filter_fqns and sizes leave all out";
  const char* scales = recipe->scaling == ops::Float8Scaling::kTensorwise ? "one scale for a tensor"
                       : recipe->scaling == ops::Float8Scaling::kRowwise
                           ? "a scale for a row"
                           : "a scale for a row, weight gradients are not";
  return fmt::format("{}{}: {}{}{}", scales, recipe->emulate ? ", emulated" : "",
                     text::join(taken, ", "), left.empty() ? "" : "; not ", text::join(left, ", "));
}

}  // namespace titan::train
