#include "train/assembly.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>

#include "models/sharding.h"
#include "parallel/host_copies.h"
#include "parallel/sharded_runner.h"
#include "parallel/single_device.h"

namespace titan::train {
namespace {

using Named = std::vector<std::pair<std::string, at::Tensor>>;

// What visit() tells of one parameter, and where it lies once the groups are made.
struct Visited {
  std::string name;
  nn::Init init;
  comm::Placement whole;
  size_t group = 0, index = 0;
};

std::vector<Visited> list_parameters(models::Model& model, const comm::Mesh& mesh) {
  std::vector<Visited> list;
  model.visit([&](const std::string& name, at::Tensor&, const nn::Init& init) {
    list.push_back(
        {name, init,
         models::tensor_parallel_placement(model.args(), name, mesh.shape.tp, mesh.at.tp)});
  });
  return list;
}

// Numbers the groups in the order of their first use in the forward pass and fills in
// Visited::group and index. Returns the parameters of each group.
std::vector<std::vector<size_t>> deal_to_groups(const models::ModelArgs& args,
                                                const models::ModelPart& part,
                                                std::vector<Visited>& list) {
  const auto order = [&](const std::string& name) {
    const int64_t group = models::group_of(args, name);
    // A tied output of a part without the embedding stands with the output.
    return group == 0 && !part.embedding ? args.num_layers + 1 : group;
  };
  std::map<int64_t, std::vector<size_t>> by_order;
  for (size_t i = 0; i < list.size(); ++i) by_order[order(list[i].name)].push_back(i);
  std::vector<std::vector<size_t>> groups;
  for (auto& [number, members] : by_order) {
    std::ranges::stable_sort(members, {},
                             [&](size_t i) { return models::memory_order(list[i].name); });
    for (size_t i = 0; i < members.size(); ++i) {
      list[members[i]].group = groups.size();
      list[members[i]].index = i;
    }
    groups.push_back(std::move(members));
  }
  return groups;
}

void disown(comm::Placement& placement) {
  placement.owned.begin.assign(placement.owned.begin.size(), 0);
  placement.owned.shape[0] = 0;
}

parallel::ShardOptions shard_options(const comm::Mesh& mesh, const AssemblyOptions& options,
                                     const std::shared_ptr<parallel::HostCopies>& host) {
  // What one device holds it need not make again, unless host memory or early updates are to save
  // room.
  const bool by_default =
      mesh.shape.pp == 1 && (!mesh.fsdp.is_identity() || options.offload || options.early_step);
  return {.shard = mesh.fsdp,
          .replicate = mesh.dp_replicate,
          .parameter_dtype = options.parameter_dtype,
          .compute_dtype = options.compute_dtype,
          .device = options.device,
          .host = host,
          .reshard_after_forward = options.reshard == Reshard::kDefault
                                       ? by_default
                                       : options.reshard == Reshard::kAlways,
          // Pipelines reduce when a stage has its last weight gradient.
          .shard_gradients =
              !mesh.fsdp.is_identity() && mesh.shape.pp == 1 && !options.whole_gradients};
}

std::unique_ptr<parallel::ShardedRunner> make_runner(const models::ModelArgs& args,
                                                     const models::ModelPart& part,
                                                     const comm::Mesh& mesh,
                                                     const AssemblyOptions& options,
                                                     const std::shared_ptr<EarlyStep>& early_step,
                                                     std::vector<Visited>& list) {
  const auto members = deal_to_groups(args, part, list);
  std::vector<std::unique_ptr<parallel::ParameterGroup>> groups;
  parallel::ShardedRunner::Options runner{
      .compute_dtype = options.compute_dtype,
      .axes = {.tp = mesh.tp,
               .context = {mesh.cp, options.context_method, options.head_tail},
               .overlap_tp = options.overlap_tp},
      .plan = options.plan,
      .first_block = part.first_layer,
      .first_block_group = part.embedding ? 1u : 0u,
      .float8 = options.float8};
  std::shared_ptr<parallel::HostCopies> host;
  if (options.offload) host = std::make_shared<parallel::HostCopies>(options.device, mesh.context);
  for (const auto& group : members) {
    std::vector<comm::Placement> wholes;
    for (const size_t i : group) wholes.push_back(list[i].whole);
    groups.push_back(std::make_unique<parallel::ParameterGroup>(
        list[group[0]].name, wholes, shard_options(mesh, options, host)));
  }
  // The output is used right after the blocks and again first thing in the backward pass; a tied
  // embedding from the first use to the last.
  if (options.reshard != Reshard::kAlways) {
    if (part.output) runner.kept_groups.push_back(groups.size() - 1);
    if (part.output && part.embedding && args.tied) runner.kept_groups.push_back(0);
  }
  for (const auto& visited : list) {
    if (models::is_replicated(visited.name)) {
      runner.partial.push_back({visited.group, visited.index});
    }
  }
  if (early_step) runner.when_reduced = [early_step](size_t group) { early_step->update(group); };
  return std::make_unique<parallel::ShardedRunner>(std::move(groups), std::move(runner));
}

}  // namespace

comm::Placement placement_at(const models::ModelArgs& args, const comm::MeshShape& shape,
                             const Pipeline* pipeline, int64_t rank, const std::string& name) {
  const auto at = comm::coordinates_of(shape, rank);
  const auto whole = models::tensor_parallel_placement(args, name, shape.tp, at.tp);
  auto placement = parallel::shard_chunk(whole, shape.fsdp(), at.dp_shard * shape.cp + at.cp);
  if (pipeline) {
    const auto stage = static_cast<size_t>(pipeline->stage_of(args, name));
    if (pipeline->plan.compute.rank_of_stage[stage] != at.pp) disown(placement);
  }
  return placement;
}

namespace {

Stage whole_on_one_device(const models::ModelArgs& args, const AssemblyOptions& options) {
  return {0, models::ModelPart::whole(args),
          models::make_model(args, options.parameter_dtype, options.device, options.seed),
          std::make_unique<parallel::SingleDeviceRunner>(options.compute_dtype, options.plan)};
}

// A stage with its parameters sharded and initialised; adds their placements.
Stage sharded_stage(const models::ModelArgs& args, int64_t number, const models::ModelPart& part,
                    const comm::Mesh& mesh, const AssemblyOptions& options,
                    const std::shared_ptr<EarlyStep>& early_step,
                    std::vector<comm::Placement>& placements) {
  Stage stage{number, part, models::make_part(args, part), nullptr};
  auto list = list_parameters(*stage.model, mesh);
  auto runner = make_runner(args, part, mesh, options, early_step, list);
  size_t i = 0;
  stage.model->visit([&](const std::string& name, at::Tensor& parameter, const nn::Init& init) {
    const at::NoGradGuard no_grad;
    const auto& group = *runner->groups()[list[i].group];
    parameter = group.leaves()[list[i].index];
    auto placement = group.placements()[list[i].index];
    at::Tensor values = parameter.detach();
    nn::initialize(values, init, options.seed, name, placement.shape, placement.part);
    // The first stage answers for a tied weight that the last one holds a copy of.
    if (!part.embedding && models::group_of(args, name) == 0) disown(placement);
    if (early_step) early_step->add(list[i].group, placements.size(), placement.owned);
    placements.push_back(placement);
    ++i;
  });
  stage.runner = std::move(runner);
  return stage;
}

}  // namespace

TrainingState assemble(const models::ModelArgs& args, const comm::Mesh& mesh,
                       const AssemblyOptions& options) {
  TrainingState state{.loss_scale =
                          optim::LossScale(options.compute_dtype == at::kHalf, options.device)};
  state.mesh = mesh;
  state.pipeline = options.pipeline;
  // On a GPU one process has groups too: a group's parameters lie behind each other, and are cast
  // in one pass.
  const bool sharded =
      mesh.is_sharded() || options.offload || options.early_step || options.device.is_cuda();
  if (options.pipeline) {
    const auto& compute = options.pipeline->plan.compute;
    for (const int64_t number : compute.stages_of_rank(mesh.at.pp)) {
      state.stages.push_back(sharded_stage(args, number,
                                           options.pipeline->parts[static_cast<size_t>(number)],
                                           mesh, options, nullptr, state.placements));
    }
  } else if (sharded) {
    if (options.early_step) state.early_step = std::make_shared<EarlyStep>();
    state.stages.push_back(sharded_stage(args, 0, models::ModelPart::whole(args), mesh, options,
                                         state.early_step, state.placements));
  } else {
    state.stages.push_back(whole_on_one_device(args, options));
  }
  Named parameters;
  state.visit([&](const std::string& name, at::Tensor& parameter, const nn::Init&) {
    parameters.emplace_back(name, parameter);
    if (sharded) return;
    const auto shape = parameter.sizes().vec();
    state.placements.push_back({name, shape, comm::Box::whole(shape), comm::Box::whole(shape)});
  });
  state.optimizer = std::make_unique<optim::Adam>(options.optimizer, std::move(parameters));
  const auto scalar_dtype = options.parameter_dtype == at::kDouble ? at::kDouble : at::kFloat;
  const auto scalar = at::TensorOptions(scalar_dtype).device(options.device);
  // The NPU's AdamW takes the learning rate as an argument of the launch, not from memory.
  const bool lr_on_host =
      options.offload || (options.device.is_privateuseone() && !options.captured);
  state.lr = at::zeros({}, lr_on_host ? scalar.device(at::kCPU) : scalar);
  if (state.early_step) state.early_step->start(state.optimizer.get(), state.lr);
  state.inverse_valid_tokens = at::zeros({}, scalar);
  return state;
}

}  // namespace titan::train
