#include "train/early_step.h"

#include <ATen/core/grad_mode.h>

namespace titan::train {

void EarlyStep::add(size_t group, size_t number, const comm::Box& owned) {
  if (groups_.size() <= group) groups_.resize(group + 1);
  groups_[group].push_back({number, owned});
}

void EarlyStep::start(optim::Adam* optimizer, const at::Tensor& lr) {
  optimizer_ = optimizer;
  lr_ = lr;
  // Beside the gradients; an NPU's learning rate is not.
  squares_ = at::zeros({}, lr.options().device(optimizer->device()));
}

void EarlyStep::update(size_t group) {
  const at::NoGradGuard no_grad;
  std::vector<size_t> numbers;
  std::vector<at::Tensor> owned;
  for (const auto& [number, box] : groups_[group]) {
    numbers.push_back(number);
    owned.push_back(box.of(optimizer_->gradient(number)));
  }
  squares_.add_(optim::sum_of_squares(owned, squares_.options()));
  optimizer_->step({.lr = lr_, .divisor = at::ones_like(squares_)}, numbers);
  for (const size_t number : numbers) optimizer_->clear_gradient(number);
}

}  // namespace titan::train
