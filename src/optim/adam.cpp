#include "optim/adam.h"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <numeric>

#include "base/error.h"

namespace titan::optim {

using at::Tensor;

Tensor global_norm(at::TensorList gradients) {
  const auto norms =
      at::_foreach_norm(gradients, 2, at::promote_types(gradients[0].scalar_type(), at::kFloat));
  return at::linalg_vector_norm(at::stack(norms), 2);
}

Tensor sum_of_squares(at::TensorList gradients, const at::TensorOptions& scalar) {
  std::vector<Tensor> filled;
  for (const auto& gradient : gradients) {
    if (gradient.numel() > 0) filled.push_back(gradient);
  }
  return filled.empty() ? at::zeros({}, scalar) : global_norm(filled).square();
}

Adam::Adam(const config::Optimizer& config, std::vector<std::pair<std::string, Tensor>> parameters)
    : decoupled_(config.name == "AdamW"),
      beta1_(config.beta1),
      beta2_(config.beta2),
      eps_(config.eps),
      weight_decay_(config.weight_decay) {
  if (config.name != "AdamW" && config.name != "Adam") {
    throw Error("[optimizer] name '{}' is not one of AdamW, Adam", config.name);
  }
  for (auto& [name, parameter] : parameters) {
    names_.push_back(name);
    exp_avg_.push_back(at::zeros_like(parameter, at::TensorOptions().requires_grad(false)));
    exp_avg_sq_.push_back(at::zeros_like(parameter, at::TensorOptions().requires_grad(false)));
    steps_.push_back(at::zeros({}, parameter.options().dtype(at::kFloat).requires_grad(false)));
    parameters_.push_back(std::move(parameter));
  }
}

Tensor Adam::gradient(size_t parameter) {
  Tensor& p = parameters_[parameter];
  if (!p.grad().defined()) p.mutable_grad() = at::zeros_like(p);
  return p.grad();
}

std::vector<Tensor> Adam::gradients() {
  std::vector<Tensor> gradients;
  for (size_t i = 0; i < parameters_.size(); ++i) gradients.push_back(gradient(i));
  return gradients;
}

void Adam::clear_gradients() {
  for (auto& parameter : parameters_) parameter.mutable_grad().reset();
}

void Adam::step(const Inputs& in) {
  std::vector<size_t> all(parameters_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  step(in, all);
}

void Adam::step(const Inputs& in, std::span<const size_t> which) {
  const at::NoGradGuard no_grad;
  // Sharded parameters may have no rows here.
  std::vector<Tensor> parameters, gradients, exp_avg, exp_avg_sq, steps, counts;
  for (const size_t i : which) {
    counts.push_back(steps_[i]);
    const Tensor own = gradient(i);
    if (own.numel() == 0) continue;
    parameters.push_back(parameters_[i]);
    gradients.push_back(own);
    exp_avg.push_back(exp_avg_[i]);
    exp_avg_sq.push_back(exp_avg_sq_[i]);
    steps.push_back(steps_[i]);
  }
  if (device().is_privateuseone()) {
    return step_on_npu(in, {parameters, gradients, exp_avg, exp_avg_sq, steps, counts});
  }
  std::optional<Tensor> divisor = in.divisor.to(at::kFloat), found_inf;
  if (in.found_inf.defined()) found_inf = in.found_inf;
  if (!parameters.empty() && parameters[0].scalar_type() == at::kDouble) {
    // The fused kernels read the divisor as float32, too coarse for float64 parameters.
    at::_foreach_div_(gradients, in.divisor);
    divisor.reset();
  }
  at::_foreach_add_(counts, 1);
  const auto fused = [&](const auto& lr) {
    if (parameters.empty()) return;
    const auto update = [&](auto&& kernel) {
      kernel(parameters, gradients, exp_avg, exp_avg_sq, at::TensorList(), steps, lr, beta1_,
             beta2_, weight_decay_, eps_,
             /*amsgrad=*/false, /*maximize=*/false, divisor, found_inf);
    };
    if (decoupled_) {
      update([](auto&&... a) { at::_fused_adamw_(a...); });
    } else {
      update([](auto&&... a) { at::_fused_adam_(a...); });
    }
  };
  if (in.lr.scalar_type() == at::kDouble && !in.lr.is_cpu()) {
    // The kernels of accelerators read a learning rate on the device as float32. float64 is for
    // checks: it may wait here.
    fused(in.lr.item<double>());
  } else {
    fused(in.lr);
  }
  if (found_inf) at::_foreach_sub_(counts, std::vector<Tensor>(counts.size(), *found_inf));
}

// torch_npu's fused AdamW takes a divisor and a skip but ignores both, wants the learning rate from
// the host, and has no sibling without decoupled decay.
void Adam::step_on_npu(const Inputs& in, const Tensors& t) {
  if (!in.lr.is_cpu()) return step_from_device(in, t);
  // Loss scaling in float16 waits for the device here.
  if (in.found_inf.defined() && in.found_inf.item<float>() != 0) return;
  at::_foreach_add_(t.counts, 1);
  if (t.parameters.empty()) return;
  at::_foreach_div_(t.gradients, in.divisor);
  if (!decoupled_ && weight_decay_ != 0) {
    at::_foreach_add_(t.gradients, t.parameters, weight_decay_);
  }
  at::_fused_adamw_(t.parameters, t.gradients, t.exp_avg, t.exp_avg_sq, {}, t.steps,
                    in.lr.item<double>(), beta1_, beta2_, decoupled_ ? weight_decay_ : 0, eps_,
                    /*amsgrad=*/false, /*maximize=*/false);
}

// The same in foreach operators that take every number that changes from the device, so that the
// step can be part of a graph. A skipped step is one of decay 1, gradient 0 and learning rate 0.
void Adam::step_from_device(const Inputs& in, const Tensors& t) {
  const bool may_skip = in.found_inf.defined();
  Tensor lr = in.lr;
  if (may_skip) {
    const Tensor taken = 1 - in.found_inf;
    for (const auto& count : t.counts) count.add_(taken);
    lr = lr * taken;
  } else {
    at::_foreach_add_(t.counts, 1);
  }
  if (t.parameters.empty()) return;
  at::_foreach_div_(t.gradients, in.divisor);
  if (!decoupled_ && weight_decay_ != 0) {
    at::_foreach_add_(t.gradients, t.parameters, weight_decay_);
  }
  if (may_skip) {
    const Tensor skip = in.found_inf.to(at::kBool);
    for (const auto& gradient : t.gradients) gradient.masked_fill_(skip, 0);
    at::_foreach_mul_(t.exp_avg, beta1_ + (1 - beta1_) * in.found_inf);
    at::_foreach_mul_(t.exp_avg_sq, beta2_ + (1 - beta2_) * in.found_inf);
  } else {
    at::_foreach_mul_(t.exp_avg, beta1_);
    at::_foreach_mul_(t.exp_avg_sq, beta2_);
  }
  at::_foreach_add_(t.exp_avg, t.gradients, 1 - beta1_);
  at::_foreach_addcmul_(t.exp_avg_sq, t.gradients, t.gradients, 1 - beta2_);
  // 1 - beta^steps; expm1, because the difference has few digits in the first steps. A first step
  // that is skipped has no corrections and uses none.
  const auto correction = [&](double beta) {
    return (t.steps[0].clamp_min(1) * std::log(beta)).expm1().neg();
  };
  const auto size = at::_foreach_sqrt(t.exp_avg_sq);
  at::_foreach_div_(size, correction(beta2_).sqrt());
  at::_foreach_add_(size, eps_);
  const auto update = at::_foreach_div(t.exp_avg, size);
  at::_foreach_mul_(update, lr / correction(beta1_));
  if (decoupled_ && weight_decay_ != 0) at::_foreach_mul_(t.parameters, 1 - lr * weight_decay_);
  at::_foreach_sub_(t.parameters, update);
}

void Adam::visit_state(const std::function<void(const std::string&, Tensor&)>& visitor) {
  for (size_t i = 0; i < names_.size(); ++i) {
    visitor("exp_avg." + names_[i], exp_avg_[i]);
    visitor("exp_avg_sq." + names_[i], exp_avg_sq_[i]);
    visitor("step." + names_[i], steps_[i]);
  }
}

}  // namespace titan::optim
