#include "parallel/sharded_runner.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "base/error.h"

namespace titan::parallel {

using at::Tensor;

// Stands for a group's whole parameters in the graph of one pass. It has no next edges: gradients
// leave the graph here.
class ShardedRunner::HandOutNode : public torch::autograd::Node {
 public:
  HandOutNode(ShardedRunner* runner, size_t group) : runner_(runner), group_(group) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    runner_->gradients_arrived(group_, gradients);
    return {};
  }

 private:
  ShardedRunner* runner_;
  size_t group_;
};

ShardedRunner::ShardedRunner(std::vector<std::unique_ptr<ParameterGroup>> groups, Options options)
    : groups_(std::move(groups)),
      options_(std::move(options)),
      handed_out_(groups_.size()),
      completed_(groups_.size()) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto& leaves = groups_[g]->leaves();
    for (size_t i = 0; i < leaves.size(); ++i) {
      place_of_leaf_[leaves[i].unsafeGetTensorImpl()] = {g, i};
    }
  }
}

ShardedRunner::~ShardedRunner() { ops::use_saved_tensor_store(nullptr); }

bool ShardedRunner::is_kept(size_t group) const {
  return !groups_[group]->options().reshard_after_forward ||
         std::ranges::find(options_.kept_groups, group) != options_.kept_groups.end();
}

void ShardedRunner::begin_pass() {
  // Stages of one rank have a runner each.
  ops::use_saved_tensor_store(this);
  for (auto& outputs : handed_out_) outputs.clear();
}

void ShardedRunner::unshard(size_t group, bool backward) {
  ParameterGroup& g = *groups_[group];
  if (g.is_unsharded()) return;
  g.unshard();
  if (!g.is_master()) {
    const auto& parameters = g.parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      place_of_storage_[parameters[i].storage().unsafeGetStorageImpl()] = {group, i};
    }
  }
  // The next group travels while this one is used. Backward never reads the embedding.
  if (!backward && group + 1 < groups_.size()) groups_[group + 1]->start_gather();
  if (backward && group > options_.first_block_group) groups_[group - 1]->start_gather();
}

void ShardedRunner::reshard(size_t group) {
  ParameterGroup& g = *groups_[group];
  for (const auto& parameter : g.parameters()) {
    place_of_storage_.erase(parameter.storage().unsafeGetStorageImpl());
  }
  g.reshard();
}

void ShardedRunner::hand_out(size_t group) {
  unshard(group, ops::is_replaying());
  auto& outputs = handed_out_[group];
  for (const auto& parameter : groups_[group]->parameters()) outputs.push_back(parameter.detach());
  if (!at::GradMode::is_enabled()) return;
  const std::shared_ptr<HandOutNode> node(new HandOutNode(this, group),
                                          torch::autograd::deleteNode);
  for (auto& output : outputs) {
    // What matters of it is its kind: gradients arrive in the dtype that the group takes.
    const Tensor like = at::empty({}, output.options().dtype(groups_[group]->gradient_dtype()))
                            .expand(output.sizes());
    const auto number = node->add_input_metadata(like);
    torch::autograd::impl::set_gradient_edge(output, {node, number});
  }
}

Tensor ShardedRunner::parameter(const Tensor& stored) {
  const auto found = place_of_leaf_.find(stored.unsafeGetTensorImpl());
  TITAN_CHECK(found != place_of_leaf_.end(), "a parameter that no group holds");
  const auto [group, index] = found->second;
  if (handed_out_[group].empty()) hand_out(group);
  return handed_out_[group][index];
}

std::function<Tensor()> ShardedRunner::handle(const Tensor& x) {
  if (!x.has_storage()) return nullptr;
  const auto found = place_of_storage_.find(x.storage().unsafeGetStorageImpl());
  if (found == place_of_storage_.end()) return nullptr;
  return [this, place = found->second, sizes = x.sizes().vec(), strides = x.strides().vec(),
          offset = x.storage_offset()] {
    unshard(place.group, true);
    const at::NoGradGuard no_grad;
    return groups_[place.group]->parameters()[place.parameter].as_strided(sizes, strides, offset);
  };
}

Tensor ShardedRunner::run(int64_t index, const Tensor& x,
                          const std::function<Tensor(const Tensor&)>& body) {
  const size_t group =
      options_.first_block_group + static_cast<size_t>(index - options_.first_block);
  // What came before the blocks has had its use.
  for (size_t g = 0; g < options_.first_block_group; ++g) {
    if (!is_kept(g) && groups_[g]->is_unsharded()) reshard(g);
  }
  const auto with_parameters = [this, group, body](const Tensor& input) {
    Tensor output = body(input);
    handed_out_[group].clear();
    // A second run is followed by the block's backward pass, which frees them.
    if (!ops::is_replaying() && !is_kept(group)) reshard(group);
    return output;
  };
  const auto i = static_cast<size_t>(index);
  if (i < options_.plan.size() && options_.plan[i]) {
    return ops::recompute(with_parameters, x, *options_.plan[i]);
  }
  return with_parameters(x);
}

void ShardedRunner::gradients_arrived(size_t group, const std::vector<Tensor>& gradients) {
  if (groups_[group]->options().reshard_after_forward) reshard(group);
  // One reduction is under way at a time.
  if (reducing_) settle(*reducing_);
  groups_[group]->reduce(gradients, last_pass_);
  reducing_ = group;
}

// Waits for the reduction of a group that is under way.
void ShardedRunner::settle(size_t group) {
  groups_[group]->drain();
  if (options_.when_reduced && groups_[group]->has_last_gradients()) complete(group);
}

void ShardedRunner::complete(size_t group) {
  groups_[group]->finish();
  const at::NoGradGuard no_grad;
  sum_partial_gradients(group);
  completed_[group] = true;
  options_.when_reduced(group);
}

// Gradients of parameters that every tensor-parallel rank holds, seen by each for its tokens or
// heads only: summed in one message.
void ShardedRunner::sum_partial_gradients(std::optional<size_t> of_group) {
  if (options_.axes.tp.size() == 1) return;
  std::vector<Tensor> gradients, flat;
  for (const auto& [group, parameter] : options_.partial) {
    if (of_group && group != *of_group) continue;
    gradients.push_back(groups_[group]->leaves()[parameter].grad());
    flat.push_back(gradients.back().reshape({-1}));
  }
  if (flat.empty()) return;
  // Gradients in host memory travel by way of the device.
  Tensor all = at::cat(flat).to(groups_[0]->options().device);
  options_.axes.tp.start_all_reduce(all).wait();
  int64_t offset = 0;
  for (Tensor& gradient : gradients) {
    gradient.copy_(all.narrow(0, offset, gradient.numel()).view(gradient.sizes()));
    offset += gradient.numel();
  }
}

std::function<void(const Tensor&)> ShardedRunner::sink_of(const Tensor& weight) {
  for (size_t g = 0; g < handed_out_.size(); ++g) {
    for (size_t i = 0; i < handed_out_[g].size(); ++i) {
      if (!handed_out_[g][i].is_same(weight)) continue;
      return [group = groups_[g].get(), i](const Tensor& gradient) { group->add(i, gradient); };
    }
  }
  return nullptr;
}

void ShardedRunner::start_reductions() {
  for (auto& group : groups_) group->start_last_reduction();
}

void ShardedRunner::finish_gradients() {
  const at::NoGradGuard no_grad;
  for (auto& outputs : handed_out_) outputs.clear();
  ops::use_saved_tensor_store(nullptr);
  for (size_t g = 0; g < groups_.size(); ++g) reshard(g);
  if (reducing_) settle(*reducing_);
  reducing_.reset();
  if (options_.when_reduced) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!completed_[g]) complete(g);
    }
    completed_.assign(groups_.size(), false);
    return;
  }
  for (auto& group : groups_) group->finish();
  sum_partial_gradients();
}

void ShardedRunner::abandon_step() {
  for (auto& outputs : handed_out_) outputs.clear();
  ops::use_saved_tensor_store(nullptr);
  place_of_storage_.clear();
  reducing_.reset();
  completed_.assign(groups_.size(), false);
  last_pass_ = true;
  for (auto& group : groups_) group->abandon();
}

}  // namespace titan::parallel
