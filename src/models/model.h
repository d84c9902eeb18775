// What the trainer knows of a model: named parameters and a forward pass from token ids to the
// hidden states before the output projection. The projection itself is fused with the loss
// (ops/cross_entropy.h).
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/args.h"
#include "nn/block_runner.h"
#include "nn/init.h"
#include "nn/kv_cache.h"
#include "nn/token_places.h"

namespace titan::models {

// name, the parameter itself (may be replaced), and how it starts.
using ParameterVisitor =
    std::function<void(const std::string& name, at::Tensor& parameter, const nn::Init& init)>;

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelArgs& args() const = 0;

  // Every parameter once, in a fixed order; a tied output projection is not visited again, unless
  // this part has no embedding.
  virtual void visit(const ParameterVisitor& visitor) = 0;

  // The part's forward pass, on this rank's tokens (nn::Axes). x: tokens [B, T] int64 where the
  // part begins with the embedding, else hidden states. The result [B, T, dim] in the runner's
  // dtype is what the next part takes, or what the output projection takes. Between parts and
  // behind the last norm T is divided by the tensor-parallel ranks.
  virtual at::Tensor hidden(const at::Tensor& x, nn::BlockRunner& runner,
                            const nn::TokenPlaces& places = {}) = 0;
  // The same for the next T tokens of a generation; appends to the cache.
  virtual at::Tensor hidden(const at::Tensor& tokens, nn::BlockRunner& runner,
                            nn::KvCache& cache) = 0;

  // The output projection [vocab, dim] as stored (the embedding when tied).
  virtual const at::Tensor& output_weight() const = 0;
};

// A contiguous part of a model: what one pipeline stage holds.
struct ModelPart {
  bool embedding = true;
  int64_t first_layer = 0, num_layers = 0;
  bool norm = true;  // the last one
  bool output = true;

  static ModelPart whole(const ModelArgs& args) { return {true, 0, args.num_layers, true, true}; }
};

struct ParameterCount {
  int64_t total = 0;      // a tied weight once
  int64_t embedding = 0;  // of total, the input embedding
};

ParameterCount count_parameters(const ModelArgs& args);

// The global shape of the parameter called `name`.
std::vector<int64_t> parameter_shape(const ModelArgs& args, const std::string& name);

// Parameter names with their global shapes, in visiting order, without making any tensor.
std::vector<std::pair<std::string, std::vector<int64_t>>> parameter_shapes(const ModelArgs& args);

// Parameters are leaves that require gradients, of `dtype` on `device`, initialised from `seed`.
std::unique_ptr<Model> make_model(const ModelArgs& args, at::ScalarType dtype, at::Device device,
                                  uint64_t seed);
// The same without values, for a load that overwrites them.
std::unique_ptr<Model> make_model_uninitialized(const ModelArgs& args, at::ScalarType dtype,
                                                at::Device device);

// A part whose parameters are undefined until visit() has given them tensors.
std::unique_ptr<Model> make_part(const ModelArgs& args, const ModelPart& part);

}  // namespace titan::models
