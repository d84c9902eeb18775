// [activation_checkpoint]: which activations are computed again in the backward pass.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/field.h"

namespace titan::config {

struct ActivationCheckpoint {
  std::string mode = "selective";
  std::string selective_ac_option = "2";
  std::optional<double> checkpoint_ratio;
  std::vector<std::string> per_op_sac_force_recompute_mm_shapes_by_fqns{"moe.router.gate"};
  bool early_stop = false;
  double memory_budget = 0.5;
  bool visualize_memory_budget_pareto = false;
  bool preserve_rng_state = true;
  std::string determinism_check = "default";
  bool debug = false;

  static constexpr void describe(auto&& field) {
    field("mode", &ActivationCheckpoint::mode,
          "none, full (every block), selective, or memory_budget",
          one_of("selective|full|memory_budget|none"));
    field("selective_ac_option", &ActivationCheckpoint::selective_ac_option,
          "op: keep the results of costly operators; n: recompute every n-th block");
    field("checkpoint_ratio", &ActivationCheckpoint::checkpoint_ratio,
          "share of the blocks that is recomputed, evenly spread; replaces selective_ac_option",
          between(0, 1));
    field("per_op_sac_force_recompute_mm_shapes_by_fqns",
          &ActivationCheckpoint::per_op_sac_force_recompute_mm_shapes_by_fqns,
          "matrix products of these modules are always recomputed (selective, op)");
    field("early_stop", &ActivationCheckpoint::early_stop,
          "stop recomputing when the last needed value is there");
    field("memory_budget", &ActivationCheckpoint::memory_budget,
          "share of the activation memory that may be used (memory_budget)", between(0, 1));
    field("visualize_memory_budget_pareto", &ActivationCheckpoint::visualize_memory_budget_pareto,
          "draw time against memory for the budgets");
    field("preserve_rng_state", &ActivationCheckpoint::preserve_rng_state,
          "restore the random state before recomputing");
    field("determinism_check", &ActivationCheckpoint::determinism_check,
          "compare recomputed with first values");
    field("debug", &ActivationCheckpoint::debug, "record where recomputation differs");
  }
};
static_assert(complete<ActivationCheckpoint>(),
              "describe() of ActivationCheckpoint misses a member");

}  // namespace titan::config
