#include "train/state.h"

#include <ATen/CPUGeneratorImpl.h>

#include <map>

#include "base/error.h"
#include "models/sharding.h"
#include "nn/sequence_parts.h"

namespace titan::train {

using checkpoint::NamedTensor;
namespace {

const nlohmann::json& need(const nlohmann::json& json, const char* key) {
  if (!json.contains(key)) {
    throw Error("[checkpoint] the state has no '{}' — it was not written by titan train", key);
  }
  return json.at(key);
}

}  // namespace

nn::TokenPlaces DocumentRules::places(const at::Tensor& documents) const {
  return {.positions = reset_positions ? nn::document_positions(documents) : at::Tensor(),
          .documents = mask ? documents : at::Tensor()};
}

int64_t Pipeline::stage_of(const models::ModelArgs& args, const std::string& name) const {
  const int64_t group = models::group_of(args, name);
  if (group == 0) return 0;
  const bool is_norm = name == "norm.weight";
  for (int64_t s = 0; s < num_stages(); ++s) {
    const auto& part = parts[static_cast<size_t>(s)];
    const bool here = group <= args.num_layers ? group - 1 < part.first_layer + part.num_layers
                      : is_norm                ? part.norm
                                               : part.output;
    if (here) return s;
  }
  throw InternalError("no stage holds " + name);
}

std::vector<NamedTensor> model_tensors(const TrainingState& state) {
  std::vector<NamedTensor> tensors;
  state.visit([&](const std::string& name, at::Tensor& parameter, const nn::Init&) {
    tensors.push_back({name, parameter.detach(), state.placements[tensors.size()]});
  });
  return tensors;
}

std::vector<NamedTensor> optimizer_tensors(const TrainingState& state) {
  std::map<std::string, const comm::Placement*> placements;
  for (const auto& placement : state.placements) placements[placement.name] = &placement;
  std::vector<NamedTensor> tensors;
  state.optimizer->visit_state([&](const std::string& name, at::Tensor& tensor) {
    const size_t dot = name.find('.');
    const std::string kind = name.substr(0, dot), parameter = name.substr(dot + 1);
    std::optional<comm::Placement> placement;
    if (tensor.dim() > 0) placement = *placements.at(parameter);
    tensors.push_back({checkpoint::optimizer_name(kind, parameter), tensor, placement});
  });
  return tensors;
}

nlohmann::json small_state(const TrainingState& state) {
  const at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  return {{"step", state.step},
          {"tokens_seen", state.tokens_seen},
          {"schedule_start", state.schedule_start},
          {"loss_scale", state.loss_scale.scale().item<double>()},
          {"loss_scale_good_steps", state.loss_scale.good_steps().item<int64_t>()},
          {"rng_cpu", checkpoint::encode_bytes(generator.get_state())}};
}

int64_t stored_schedule_position(const nlohmann::json& json) {
  return need(json, "step").get<int64_t>() - json.value("schedule_start", int64_t{0});
}

void restore_small_state(const nlohmann::json& json, TrainingState& state) {
  state.step = need(json, "step").get<int64_t>();
  state.tokens_seen = need(json, "tokens_seen").get<int64_t>();
  state.loss_scale.restore(need(json, "loss_scale").get<double>(),
                           need(json, "loss_scale_good_steps").get<int64_t>());
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_state(checkpoint::decode_bytes(need(json, "rng_cpu").get<std::string>()));
}

}  // namespace titan::train
