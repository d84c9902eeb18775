// Runs a model whose parameters are sharded: gathers a block's parameters when the block needs
// them, frees them when it is done, and reduces their gradients as soon as the backward pass has
// them all.
//
// Life of a block: parameter() gathers its group and makes one autograd node that hands out the
// whole parameters. What the graph saves of them are handles, which gather again on use, so a freed
// parameter can never be read. The node runs when every use has its gradient: it frees the
// parameters and starts the reduction, while the backward pass goes on with the block before.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "nn/block_runner.h"
#include "ops/deferred.h"
#include "ops/recompute.h"
#include "parallel/parameter_group.h"
#include "parallel/recompute_plan.h"

namespace titan::parallel {

// A parameter whose gradient on each tensor-parallel rank is a part of the sum.
struct PartialGradient {
  size_t group, parameter;
};

class ShardedRunner : public nn::BlockRunner,
                      private ops::SavedTensorStore,
                      private ops::WeightGradientSink {
 public:
  struct Options {
    at::ScalarType compute_dtype = at::kFloat;
    nn::Axes axes;
    RecomputePlan plan;            // by the model's blocks; empty: nothing is recomputed
    int64_t first_block = 0;       // the model's number of the first block here
    size_t first_block_group = 0;  // the group of that block; the others follow
    // Groups that stay whole between their uses in the forward pass: a tied embedding, the output.
    std::vector<size_t> kept_groups;
    std::vector<PartialGradient> partial;
    // Which linear layers compute in float8, and how; empty: none.
    std::function<std::optional<ops::Float8Recipe>(const std::string& module)> float8;
    // Called during the last backward pass of a step, or at its end, when the leaves of a group
    // have their final gradients; nothing of the step reads the group's parameters after that.
    std::function<void(size_t group)> when_reduced;
  };

  // Groups in the order of their use in the forward pass. One thread makes and uses a runner; the
  // backward pass may run on another.
  ShardedRunner(std::vector<std::unique_ptr<ParameterGroup>> groups, Options options);
  ~ShardedRunner() override;

  void begin_pass() override;
  at::Tensor parameter(const at::Tensor& stored) override;
  at::ScalarType compute_dtype() const override { return options_.compute_dtype; }
  const nn::Axes& axes() const override { return options_.axes; }
  std::optional<ops::Float8Recipe> float8(const std::string& module) const override {
    return options_.float8 ? options_.float8(module) : std::nullopt;
  }
  at::Tensor run(int64_t index, const at::Tensor& x,
                 const std::function<at::Tensor(const at::Tensor&)>& body) override;

  void set_last_pass(bool last) override { last_pass_ = last; }
  void start_reductions() override;
  void finish_gradients() override;
  void abandon_step() override;

  ops::WeightGradientSink* weight_gradient_sink() override { return this; }

  const std::vector<std::unique_ptr<ParameterGroup>>& groups() const { return groups_; }

 private:
  struct Place {
    size_t group, parameter;
  };
  class HandOutNode;

  std::function<void(const at::Tensor&)> sink_of(const at::Tensor& weight) override;
  std::function<at::Tensor()> handle(const at::Tensor& x) override;
  void unshard(size_t group, bool backward);
  void reshard(size_t group);
  void hand_out(size_t group);
  void gradients_arrived(size_t group, const std::vector<at::Tensor>& gradients);
  void settle(size_t group);
  void complete(size_t group);
  void sum_partial_gradients(std::optional<size_t> of_group = std::nullopt);
  bool is_kept(size_t group) const;

  std::vector<std::unique_ptr<ParameterGroup>> groups_;
  Options options_;
  std::unordered_map<const c10::TensorImpl*, Place> place_of_leaf_;
  std::unordered_map<const c10::StorageImpl*, Place> place_of_storage_;
  std::vector<std::vector<at::Tensor>> handed_out_;  // per group, in the pass or block under way
  std::optional<size_t> reducing_;
  std::vector<bool> completed_;  // in this step
  bool last_pass_ = true;
};

}  // namespace titan::parallel
