// [optimizer]: AdamW and Adam; one parameter group, weight decay on every parameter.
#pragma once

#include <string>

#include "config/field.h"

namespace titan::config {

struct Optimizer {
  std::string name = "AdamW";
  double lr = 8e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  std::string implementation = "fused";
  bool early_step_in_backward = false;

  static constexpr void describe(auto&& field) {
    field("name", &Optimizer::name, "update rule of the parameters", one_of("Adam|AdamW"));
    field("lr", &Optimizer::lr, "peak learning rate", at_least(0));
    field("beta1", &Optimizer::beta1, "decay of the first moment", from_below(0, 1));
    field("beta2", &Optimizer::beta2, "decay of the second moment", from_below(0, 1));
    field("eps", &Optimizer::eps, "added to the root of the second moment", at_least(0));
    field("weight_decay", &Optimizer::weight_decay, "weight decay, on norms and embeddings too",
          at_least(0));
    field("implementation", &Optimizer::implementation, "kernel flavour",
          one_of("for-loop|foreach|fused"));
    field("early_step_in_backward", &Optimizer::early_step_in_backward,
          "update each parameter as soon as its gradient is complete");
  }
};
static_assert(complete<Optimizer>(), "describe() of Optimizer misses a member");

}  // namespace titan::config
