// What the tests of layouts share: how a layout is held against one process, and the layouts that
// users run.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "support/tiny_args.h"
#include "train/layout_check.h"

namespace titan::train {

constexpr double kDouble = 1e-11, kSingle = 1e-6;

inline models::ModelArgs with_layers(models::ModelArgs args, int64_t layers) {
  args.num_layers = layers;
  return args;
}

// Runs of one process, each made once: many layouts are held against the same one.
inline const LayoutRun& reference_of(const LayoutCase& c) {
  static std::map<std::string, LayoutRun> runs;
  const std::string key = fmt::format(
      "{} {} {} {} {} {} {} {} {} {}", c.args.family, c.args.num_layers, c.args.vocab_size,
      c.args.tied, static_cast<int>(c.parameter_dtype), static_cast<int>(c.compute_dtype),
      c.global_batch, c.seq_len, c.steps, c.max_norm);
  const auto found = runs.find(key);
  return found != runs.end() ? found->second : runs.emplace(key, run_one_process(c)).first->second;
}

// Loss and norm of every step, every gradient of step 1, every parameter after the last step.
inline void expect_equal(const LayoutCase& c, const std::string& what) {
  const LayoutRun& one = reference_of(c);
  const auto d = difference(run_layout(c), one);
  const bool wide = c.compute_dtype == at::kDouble;
  EXPECT_LE(d.loss, wide ? kDouble : kSingle) << what;
  EXPECT_LE(d.norm, wide ? kDouble : 10 * kSingle) << what;
  EXPECT_LE(d.gradient, wide ? kDouble : 1e-4) << what << ": " << d.worst_gradient;
  EXPECT_LE(d.parameter, wide ? kDouble : 1e-3) << what << ": " << d.worst_parameter;
  // Clipping bites in every step, or it would not be tested.
  EXPECT_GT(*std::ranges::min_element(one.norms), c.max_norm) << what;
}

// Every pair of axes of degree 2, and the mixes that users run.
inline std::vector<comm::MeshShape> pairs() {
  return {{.dp_replicate = 2, .dp_shard = 2},
          {.dp_replicate = 2, .cp = 2},
          {.dp_replicate = 2, .tp = 2},
          {.pp = 2, .dp_replicate = 2},
          {.dp_shard = 2, .cp = 2},
          {.dp_shard = 2, .tp = 2},
          {.pp = 2, .dp_shard = 2},
          {.cp = 2, .tp = 2},
          {.pp = 2, .cp = 2},
          {.pp = 2, .tp = 2}};
}

inline std::vector<comm::MeshShape> larger_mixes() {
  return {{.pp = 2, .dp_shard = 2, .tp = 2},
          {.dp_shard = 2, .cp = 2, .tp = 2},
          {.pp = 2, .dp_replicate = 2, .dp_shard = 2, .tp = 2},
          {.pp = 2, .dp_shard = 2, .cp = 2, .tp = 2}};
}

inline std::vector<comm::MeshShape> all_mixes() {
  auto mixes = pairs();
  for (const auto& mix : larger_mixes()) mixes.push_back(mix);
  return mixes;
}

// Tied weights, two micro-batches a step, recomputation; two layers, so that a stage has one.
inline LayoutCase mix_case(const comm::MeshShape& shape) {
  return {.shape = shape,
          .args = with_layers(models::tiny_qwen3(), 2),
          .global_batch = 16,
          .accumulation = 2,
          .seq_len = 16,
          .recompute = ops::Kept::kExpensive};
}

}  // namespace titan::train
