#include "train/pipeline_step.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>

#include "base/error.h"
#include "models/sharding.h"
#include "ops/deferred.h"

namespace titan::train {
namespace {

using at::Tensor;
using parallel::pipeline::Action;
using parallel::pipeline::ActionKind;

// What one stage keeps of one micro-batch between its actions.
struct Flight {
  Tensor input, output;  // output: the loss on the last stage
  Tensor input_gradient, output_gradient;
  ops::DeferredGradients deferred;
};

class Execution {
 public:
  Execution(TrainingState& state, const MicroBatch& batch, const Tensor& scale, bool last)
      : state_(state), batch_(batch), scale_(scale), loss_(at::zeros_like(scale)), last_(last) {}

  Tensor run() {
    const auto at = static_cast<size_t>(state_.mesh.at.pp);
    for (const Action& action : state_.pipeline->plan.lowered.per_rank[at]) execute(action);
    for (auto& message : sent_) message.wait();
    return loss_;
  }

  Tensor run_forward_only() {
    for (int64_t s = 0; s < num_stages(); ++s) {
      if (!is_here(s)) continue;
      if (s > 0 && !is_here(s - 1)) receive_input(s, kWhole);
      forward(s, kWhole);
      if (s + 1 < num_stages() && !is_here(s + 1)) send_output(s, kWhole);
    }
    for (auto& message : sent_) message.wait();
    return loss_;
  }

 private:
  static constexpr int64_t kWhole = -1;  // the batch uncut

  int64_t num_stages() const { return state_.pipeline->num_stages(); }
  int64_t rank_of(int64_t stage) const {
    return state_.pipeline->plan.compute.rank_of_stage[static_cast<size_t>(stage)];
  }
  bool is_here(int64_t stage) const { return rank_of(stage) == state_.mesh.at.pp; }
  Stage& stage(int64_t number) {
    for (auto& stage : state_.stages) {
      if (stage.number == number) return stage;
    }
    throw InternalError(fmt::format("stage {} is not on this rank", number));
  }
  Flight& flight(int64_t stage, int64_t microbatch) { return flights_[{stage, microbatch}]; }

  MicroBatch rows(int64_t microbatch) const {
    if (microbatch == kWhole) return batch_;
    const int64_t size = state_.pipeline->microbatch_size;
    return {batch_.inputs.narrow(0, microbatch * size, size),
            batch_.labels.narrow(0, microbatch * size, size),
            batch_.places.rows(microbatch * size, size)};
  }

  void execute(const Action& action);
  void forward(int64_t number, int64_t microbatch);
  void backward(int64_t number, int64_t microbatch, bool weights_too);
  void weight_gradients(int64_t number, int64_t microbatch);
  Tensor new_message(int64_t microbatch) const;
  void send(const Tensor& x, int64_t to_stage, int64_t tag);
  void receive(Tensor& x, int64_t from_stage, int64_t tag);
  void send_output(int64_t number, int64_t microbatch) {
    send(flight(number, microbatch).output.detach(), number + 1, tag(number, microbatch, false));
  }
  void receive_input(int64_t number, int64_t microbatch) {
    Tensor& input = flight(number, microbatch).input;
    input = new_message(microbatch);
    receive(input, number - 1, tag(number - 1, microbatch, false));
  }
  int64_t tag(int64_t sender, int64_t microbatch, bool gradient) const {
    return ((microbatch + 1) * num_stages() + sender) * 2 + (gradient ? 1 : 0);
  }

  TrainingState& state_;
  const MicroBatch& batch_;
  Tensor scale_;
  Tensor loss_;
  bool last_;
  std::map<std::pair<int64_t, int64_t>, Flight> flights_;
  std::vector<comm::Pending> sent_;
};

// Messages carry the hidden states of this rank's tokens.
Tensor Execution::new_message(int64_t microbatch) const {
  const auto& axes = state_.axes();
  const int64_t tokens = batch_.inputs.size(1) / axes.tp.size();
  return at::empty({rows(microbatch).inputs.size(0), tokens, state_.args().dim},
                   batch_.inputs.options().dtype(state_.stages[0].runner->compute_dtype()));
}

// Upwards and downwards are groups of their own: a message never waits for one the other way.
void Execution::send(const Tensor& x, int64_t to_stage, int64_t tag) {
  const int64_t to = rank_of(to_stage);
  const auto& group = to > state_.mesh.at.pp ? state_.mesh.pp : state_.mesh.pp_back;
  std::erase_if(sent_, [](const comm::Pending& message) { return message.is_done(); });
  sent_.push_back(group.start_send(x.contiguous(), to, tag));
}

void Execution::receive(Tensor& x, int64_t from_stage, int64_t tag) {
  const int64_t from = rank_of(from_stage);
  const auto& group = from < state_.mesh.at.pp ? state_.mesh.pp : state_.mesh.pp_back;
  group.start_receive(x, from, tag).wait();
}

void Execution::forward(int64_t number, int64_t microbatch) {
  Stage& s = stage(number);
  Flight& f = flight(number, microbatch);
  const MicroBatch batch = rows(microbatch);
  if (number > 0) {
    if (is_here(number - 1)) f.input = flight(number - 1, microbatch).output.detach();
    f.input.set_requires_grad(at::GradMode::is_enabled());
  }
  const ops::DeferGradients deferral(state_.pipeline->splits_backward ? &f.deferred : nullptr,
                                     s.runner->weight_gradient_sink());
  f.output = stage_forward(s, number > 0 ? f.input : batch.inputs, batch.places);
  if (number + 1 < num_stages()) return;
  f.output = output_loss(state_, s, f.output, batch.labels, scale_);
  loss_ = loss_ + f.output.detach();
}

void Execution::backward(int64_t number, int64_t microbatch, bool weights_too) {
  Flight& f = flight(number, microbatch);
  stage(number).runner->set_last_pass(false);
  if (number + 1 == num_stages()) {
    torch::autograd::backward({f.output}, {});
  } else {
    if (is_here(number + 1)) {
      f.output_gradient = std::move(flight(number + 1, microbatch).input_gradient);
    }
    torch::autograd::backward({f.output}, {f.output_gradient});
  }
  if (number > 0) f.input_gradient = f.input.grad();
  f.output.reset();
  f.output_gradient.reset();
  f.input.reset();
  if (weights_too) weight_gradients(number, microbatch);
}

void Execution::weight_gradients(int64_t number, int64_t microbatch) {
  const at::NoGradGuard no_grad;
  auto deferred = std::move(flight(number, microbatch).deferred);
  flight(number, microbatch).deferred.clear();
  for (const auto& compute : deferred) compute();
}

void Execution::execute(const Action& action) {
  const auto [kind, number, microbatch] = action;
  auto& phase = state_.mesh.context->progress.phase;
  switch (kind) {
    case ActionKind::kForward:
      phase = "pipeline forward";
      return forward(number, microbatch);
    case ActionKind::kBackward:
      phase = "pipeline backward";
      return backward(number, microbatch, true);
    case ActionKind::kBackwardInput:
      phase = "pipeline backward";
      return backward(number, microbatch, false);
    case ActionKind::kBackwardWeight:
      return weight_gradients(number, microbatch);
    case ActionKind::kSendForward:
      return send_output(number, microbatch);
    case ActionKind::kReceiveForward:
      phase = "pipeline receive";
      return receive_input(number, microbatch);
    case ActionKind::kSendBackward:
      return send(flight(number, microbatch).input_gradient, number - 1,
                  tag(number, microbatch, true));
    case ActionKind::kReceiveBackward: {
      phase = "pipeline receive";
      Tensor& gradient = flight(number, microbatch).output_gradient;
      gradient = new_message(microbatch);
      return receive(gradient, number + 1, tag(number + 1, microbatch, true));
    }
    case ActionKind::kReduce:
      if (last_) stage(number).runner->start_reductions();
      return;
    case ActionKind::kUnshard:  // the runner gathers and
    case ActionKind::kReshard:  // frees by itself
      return;
  }
}

}  // namespace

Tensor pipeline_step(TrainingState& state, const MicroBatch& batch, const Tensor& scale,
                     bool last) {
  return Execution(state, batch, scale, last).run();
}

Tensor pipeline_loss(TrainingState& state, const MicroBatch& batch, const Tensor& scale) {
  return Execution(state, batch, scale, false).run_forward_only();
}

void sum_tied_gradients(TrainingState& state) {
  if (!state.pipeline || !state.args().tied) return;
  const at::NoGradGuard no_grad;
  std::vector<Tensor> copies;
  state.visit([&](const std::string& name, Tensor& parameter, const nn::Init&) {
    if (models::group_of(state.args(), name) == 0) copies.push_back(parameter.grad());
  });
  if (copies.size() == 2) {  // a V-shaped schedule: both are here
    copies[0].add_(copies[1]);
    copies[1].copy_(copies[0]);
  } else if (copies.size() == 1) {
    // Gradients in host memory travel by way of the device.
    Tensor sum = copies[0].to(state.inverse_valid_tokens.device());
    state.mesh.ends.start_all_reduce(sum).wait();
    if (!sum.is_same(copies[0])) copies[0].copy_(sum);
  }
}

}  // namespace titan::train
