// Runs a few training steps of a small model in a layout of ranks-as-threads and as one process,
// and tells how far they are apart: what `titan selfcheck` and the tests of every axis stand on.
// CPU only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/thread_world.h"
#include "train/assembly.h"
#include "train/step.h"

namespace titan::train {

struct LayoutCase {
  comm::MeshShape shape;
  models::ModelArgs args;
  at::ScalarType parameter_dtype = at::kDouble;
  at::ScalarType compute_dtype = at::kDouble;
  int64_t global_batch = 8;
  int64_t accumulation = 1;
  int64_t seq_len = 12;
  int64_t steps = 20;
  DocumentRules documents;  // of samples of several documents; by default they say nothing
  double max_norm = 0.3;    // bites
  Reshard reshard = Reshard::kDefault;
  bool whole_gradients = false;
  bool offload = false, early_step = false;
  std::optional<ops::Kept> recompute;
  nn::ContextMethod context_method = nn::ContextMethod::kAllGather;
  bool head_tail = true;
  bool overlap_tp = false;
  std::string schedule = "1F1B";
  std::optional<int64_t> layers_per_stage;
  // The modules of each stage by name; empty: dealt evenly.
  std::vector<std::vector<std::string>> modules;
  // Watches or breaks the collectives of the layout.
  comm::BackendDecorator decorate;
  // Breaks a run on purpose: called on every rank with its part of each batch.
  std::function<void(MicroBatch&, int64_t rank)> break_batch;
};

struct LayoutRun {
  std::vector<double> losses, norms;
  std::map<std::string, at::Tensor> gradients;   // of step 1, whole, before clipping
  std::map<std::string, at::Tensor> parameters;  // after the last step, whole
  // What rank 0 sent in all steps, in bytes, by axis and collective.
  std::map<std::pair<std::string, std::string>, comm::Traffic::Sum> traffic;
};

LayoutRun run_layout(const LayoutCase& c);
// The same steps on one process, without recomputation and accumulation.
LayoutRun run_one_process(const LayoutCase& c);

// Largest relative difference of each kind.
struct LayoutDifference {
  double loss = 0, first_norm = 0, norm = 0, gradient = 0, parameter = 0;
  std::string worst_gradient, worst_parameter;
};
LayoutDifference difference(const LayoutRun& a, const LayoutRun& b);

}  // namespace titan::train
