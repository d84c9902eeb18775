// [fault_tolerance]: replicas that may fail and rejoin, and training that synchronises rarely.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/field.h"

namespace titan::config {

struct FaultTolerance {
  bool enable = false;
  std::string process_group = "gloo";
  int64_t process_group_timeout_ms = 10000;
  int64_t replica_id = 0;
  int64_t group_size = 0;
  int64_t min_replica_size = 1;
  std::optional<std::string> semi_sync_method;
  int64_t sync_steps = 5;
  bool should_quantize = false;
  int64_t fragment_sync_delay = 0;
  double fragment_update_alpha = 0.0;
  int64_t num_fragments = 1;
  std::optional<std::vector<std::vector<std::string>>> module_fqns_per_model_fragment;

  static constexpr void describe(auto&& field) {
    field("enable", &FaultTolerance::enable, "train in replica groups that may fail");
    field("process_group", &FaultTolerance::process_group, "backend between the replica groups",
          one_of("gloo|nccl"));
    field("process_group_timeout_ms", &FaultTolerance::process_group_timeout_ms,
          "time limit of collectives between groups", at_least(1));
    field("replica_id", &FaultTolerance::replica_id, "number of this replica group", at_least(0));
    field("group_size", &FaultTolerance::group_size, "number of replica groups", at_least(0));
    field("min_replica_size", &FaultTolerance::min_replica_size,
          "replica groups that must be alive", at_least(1));
    field("semi_sync_method", &FaultTolerance::semi_sync_method,
          "synchronise parameters rarely instead of gradients always", one_of("local_sgd|diloco"));
    field("sync_steps", &FaultTolerance::sync_steps, "steps between two synchronisations",
          at_least(1));
    field("should_quantize", &FaultTolerance::should_quantize, "send pseudo-gradients quantised");
    field("fragment_sync_delay", &FaultTolerance::fragment_sync_delay,
          "steps between sending a fragment and using it", at_least(0));
    field("fragment_update_alpha", &FaultTolerance::fragment_update_alpha,
          "share of the local parameters that is kept", between(0, 1));
    field("num_fragments", &FaultTolerance::num_fragments,
          "fragments of the model in streaming DiLoCo", at_least(1));
    field("module_fqns_per_model_fragment", &FaultTolerance::module_fqns_per_model_fragment,
          "modules of each fragment");
  }
};
static_assert(complete<FaultTolerance>(), "describe() of FaultTolerance misses a member");

}  // namespace titan::config
