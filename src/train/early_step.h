// Updates in the backward pass (optimizer.early_step_in_backward): the parameters of a group change
// as soon as their gradients are complete, which are then freed. So no gradient waits for the norm
// of all: nothing is clipped.
#pragma once

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "comm/placement.h"
#include "optim/adam.h"

namespace titan::train {

class EarlyStep {
 public:
  // Parameter `number` of the optimizer belongs to `group`; `owned` is what this rank answers for.
  void add(size_t group, size_t number, const comm::Box& owned);
  void start(optim::Adam* optimizer, const at::Tensor& lr);

  // The gradients of `group` are complete: updates its parameters.
  void update(size_t group);
  // The sum of the squares of all gradients since the last call, where the parameters lie.
  at::Tensor take_squares() { return std::exchange(squares_, at::zeros_like(lr_)); }

 private:
  struct Member {
    size_t number;
    comm::Box owned;
  };
  std::vector<std::vector<Member>> groups_;
  optim::Adam* optimizer_ = nullptr;
  at::Tensor lr_, squares_;
};

}  // namespace titan::train
