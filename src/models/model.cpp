#include "models/model.h"

#include "base/error.h"
#include "models/dense.h"

namespace titan::models {
namespace {

int64_t product(const std::vector<int64_t>& shape) {
  int64_t numel = 1;
  for (const int64_t size : shape) numel *= size;
  return numel;
}

std::unique_ptr<Model> make(const ModelArgs& args, at::ScalarType dtype, at::Device device,
                            const uint64_t* seed) {
  auto model = std::make_unique<DenseModel>(args);
  model->visit([&](const std::string& name, at::Tensor& parameter, const nn::Init& init) {
    parameter = at::empty(parameter_shape(args, name), at::TensorOptions(dtype).device(device));
    if (seed) nn::initialize(parameter, init, *seed, name);
    parameter.set_requires_grad(true);
  });
  return model;
}

}  // namespace

std::vector<int64_t> parameter_shape(const ModelArgs& a, const std::string& name) {
  const auto is = [&](std::string_view suffix) { return name.ends_with(suffix); };
  if (is("tok_embeddings.weight") || is("output.weight")) return {a.vocab_size, a.dim};
  if (is("wq.weight")) return {a.num_heads * a.head_dim, a.dim};
  if (is("wk.weight") || is("wv.weight")) return {a.num_kv_heads * a.head_dim, a.dim};
  if (is("wo.weight")) return {a.dim, a.num_heads * a.head_dim};
  if (is("w1.weight") || is("w3.weight")) return {a.hidden_dim, a.dim};
  if (is("w2.weight")) return {a.dim, a.hidden_dim};
  if (is("q_norm.weight") || is("k_norm.weight")) return {a.head_dim};
  TITAN_CHECK(is("norm.weight"), "no shape is known for parameter {}", name);
  return {a.dim};
}

std::vector<std::pair<std::string, std::vector<int64_t>>> parameter_shapes(const ModelArgs& args) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> shapes;
  DenseModel(args).visit([&](const std::string& name, at::Tensor&, const nn::Init&) {
    shapes.emplace_back(name, parameter_shape(args, name));
  });
  return shapes;
}

ParameterCount count_parameters(const ModelArgs& args) {
  ParameterCount count;
  for (const auto& [name, shape] : parameter_shapes(args)) {
    count.total += product(shape);
    if (name == "tok_embeddings.weight") count.embedding = product(shape);
  }
  return count;
}

std::unique_ptr<Model> make_model(const ModelArgs& args, at::ScalarType dtype, at::Device device,
                                  uint64_t seed) {
  return make(args, dtype, device, &seed);
}

std::unique_ptr<Model> make_part(const ModelArgs& args, const ModelPart& part) {
  return std::make_unique<DenseModel>(args, part);
}

std::unique_ptr<Model> make_model_uninitialized(const ModelArgs& args, at::ScalarType dtype,
                                                at::Device device) {
  return make(args, dtype, device, nullptr);
}

}  // namespace titan::models
