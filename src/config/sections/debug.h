// [debug]: seeds and bit-equal runs.
#pragma once

#include <cstdint>
#include <optional>

#include "config/field.h"

namespace titan::config {

struct Debug {
  std::optional<int64_t> seed;
  bool deterministic = false;
  bool deterministic_warn_only = false;
  bool moe_force_load_balance = false;
  bool shard_one_process = false;

  static constexpr void describe(auto&& field) {
    field("seed", &Debug::seed, "seed of the initial weights; absent: drawn at start and logged",
          between(0, 9.2e18));
    field("deterministic", &Debug::deterministic,
          "only deterministic operators: two runs are equal bit for bit");
    field("deterministic_warn_only", &Debug::deterministic_warn_only,
          "warn about operators without a deterministic form instead of ending");
    field("moe_force_load_balance", &Debug::moe_force_load_balance,
          "deal tokens to experts in turn, for speed measurements");
    field("shard_one_process", &Debug::shard_one_process,
          "run FSDP with a group of one rank, to measure what its machinery costs");
  }
};
static_assert(complete<Debug>(), "describe() of Debug misses a member");

}  // namespace titan::config
