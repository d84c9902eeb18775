#include "train/layout_check.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <mutex>

#include "ops/cross_entropy.h"
#include "ops/recompute.h"
#include "train/batches.h"
#include "train/layout.h"

namespace titan::train {
namespace {

using at::Tensor;

// Adds what a rank owns to the whole tensor.
void place(std::map<std::string, Tensor>& whole, const comm::Placement& placement,
           const Tensor& part) {
  if (placement.owned.numel() == 0) return;
  Tensor& target = whole[placement.name];
  if (!target.defined()) target = at::zeros(placement.shape, part.options().requires_grad(false));
  const at::NoGradGuard no_grad;
  placement.owned_of_whole().of(target).copy_(placement.owned.of(part.detach()));
}

struct Batch {
  Tensor inputs, labels, documents;  // [rows, time] int64
  int64_t valid_tokens = 0;
};

// Documents of uneven lengths that differ between rows and steps. In the last row but one the
// second half is a document of its own: with context parallelism whole ranks have nothing to see on
// others.
Tensor documents_of(const LayoutCase& c, int64_t step) {
  const Tensor row = at::arange(c.global_batch, at::kLong).unsqueeze(1);
  const Tensor column = at::arange(c.seq_len, at::kLong).unsqueeze(0);
  const Tensor starts = (row * 31 + column * 17 + step * 7).remainder(23).lt(5).to(at::kLong);
  Tensor documents = starts.cumsum(1);
  if (c.global_batch > 2) {
    documents[c.global_batch - 2].copy_(column[0].ge(c.seq_len / 2).to(at::kLong));
  }
  return documents;
}

// Ids that look random and are the same everywhere; some rows are padded in part or wholly.
Batch batch_of(const LayoutCase& c, int64_t step) {
  const Tensor row = at::arange(c.global_batch, at::kLong).unsqueeze(1);
  const Tensor column = at::arange(c.seq_len + 1, at::kLong).unsqueeze(0);
  const Tensor mixed = row * 7919 + column * 104729 + step * 1299709;
  const Tensor ids = (mixed * mixed + mixed).remainder(1000003).remainder(c.args.vocab_size);
  Batch batch{ids.narrow(1, 0, c.seq_len).contiguous(), ids.narrow(1, 1, c.seq_len).contiguous()};
  batch.documents = documents_of(c, step);
  batch.labels[1].fill_(ops::kIgnoredLabel);
  batch.labels[c.global_batch - 1].narrow(0, 1, c.seq_len - 1).fill_(ops::kIgnoredLabel);
  batch.valid_tokens = batch.labels.ne(ops::kIgnoredLabel).sum().item<int64_t>();
  return batch;
}

// Rows of this rank in accumulation step `a`.
MicroBatch micro_batch(const LayoutCase& c, const comm::Mesh& mesh, const Batch& batch, int64_t a) {
  const int64_t rows = c.global_batch / c.accumulation / c.shape.data();
  const int64_t first =
      a * c.global_batch / c.accumulation + comm::data_rank(c.shape, mesh.rank) * rows;
  return {batch.inputs.narrow(0, first, rows), batch.labels.narrow(0, first, rows),
          c.documents.places(batch.documents.narrow(0, first, rows))};
}

void run_rank(const LayoutCase& c, const comm::Mesh& mesh, LayoutRun& run, std::mutex& mutex) {
  at::set_num_threads(1);
  parallel::RecomputePlan plan;
  if (c.recompute) plan.assign(static_cast<size_t>(c.args.num_layers), c.recompute);
  config::Parallelism parallelism;
  parallelism.pipeline_parallel_degree = c.shape.pp;
  parallelism.pipeline_parallel_schedule = c.schedule;
  parallelism.pipeline_parallel_layers_per_stage = c.layers_per_stage;
  if (!c.modules.empty()) parallelism.module_fqns_per_model_part = c.modules;
  parallelism.pipeline_parallel_first_stage_less_layers = 0;
  parallelism.pipeline_parallel_last_stage_less_layers = 0;
  const int64_t local_batch = c.global_batch / c.accumulation / c.shape.data();
  TrainingState state = assemble(c.args, mesh,
                                 {.parameter_dtype = c.parameter_dtype,
                                  .compute_dtype = c.compute_dtype,
                                  .seed = 11,
                                  .plan = plan,
                                  .context_method = c.context_method,
                                  .head_tail = c.head_tail,
                                  .overlap_tp = c.overlap_tp,
                                  .reshard = c.reshard,
                                  .whole_gradients = c.whole_gradients,
                                  .offload = c.offload,
                                  .early_step = c.early_step,
                                  .pipeline = make_pipeline(parallelism, c.args, local_batch)});
  state.max_norm = c.max_norm;
  state.lr.fill_(0.002);
  for (int64_t step = 0; step < c.steps; ++step) {
    const auto batch = batch_of(c, step);
    state.inverse_valid_tokens.fill_(1.0 / static_cast<double>(batch.valid_tokens));
    std::vector<MicroBatch> micro;
    for (int64_t a = 0; a < c.accumulation; ++a) {
      micro.push_back(part_of(micro_batch(c, mesh, batch, a), state.axes().context));
      if (c.break_batch) c.break_batch(micro.back(), mesh.rank);
    }
    const StepResult result = train_step(state, micro, [&](std::span<const Tensor> gradients) {
      if (step > 0 || mesh.at.dp_replicate > 0) return;
      const std::lock_guard lock(mutex);
      for (size_t i = 0; i < gradients.size(); ++i) {
        place(run.gradients, state.placements[i], gradients[i].clone());
      }
    });
    state.step = step + 1;
    if (mesh.rank == 0) {
      run.losses.push_back(result.loss.item<double>());
      run.norms.push_back(result.grad_norm.item<double>());
    }
  }
  if (mesh.rank == 0) run.traffic = mesh.context->traffic.sums();
  if (mesh.at.dp_replicate > 0) return;
  const std::lock_guard lock(mutex);
  size_t i = 0;
  state.visit([&](const std::string&, Tensor& parameter, const nn::Init&) {
    place(run.parameters, state.placements[i++], parameter);
  });
}

double relative(const Tensor& a, const Tensor& b) {
  const double scale = b.abs().max().item<double>();
  return (a - b).abs().max().item<double>() / (scale > 0 ? scale : 1);
}

double worst_of(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b,
                std::string& name) {
  double worst = a.size() == b.size() ? 0 : 1e9;
  for (const auto& [key, tensor] : b) {
    const double d = a.contains(key) ? relative(a.at(key), tensor) : 1e9;
    if (!(d <= worst)) {
      worst = d;
      name = key;
    }
  }
  return worst;
}

}  // namespace

LayoutRun run_layout(const LayoutCase& c) {
  ops::install_saved_tensor_hooks();
  LayoutRun run;
  std::mutex mutex;
  const comm::ThreadWorld world(c.shape.world(), c.decorate);
  world.run([&](int64_t rank) {
    const auto context = std::make_shared<comm::RankContext>();
    const auto maker = world.maker(rank, context);
    run_rank(c, comm::make_mesh(c.shape, rank, maker, maker, context), run, mutex);
  });
  return run;
}

LayoutRun run_one_process(const LayoutCase& c) {
  LayoutCase one = c;
  one.shape = {};
  one.accumulation = 1;
  one.recompute.reset();
  one.offload = one.early_step = false;
  one.decorate = nullptr;
  one.break_batch = nullptr;
  return run_layout(one);
}

LayoutDifference difference(const LayoutRun& a, const LayoutRun& b) {
  LayoutDifference d;
  for (size_t i = 0; i < b.losses.size(); ++i) {
    d.loss = std::max(d.loss, std::abs(a.losses[i] - b.losses[i]) / std::abs(b.losses[i]));
    d.norm = std::max(d.norm, std::abs(a.norms[i] - b.norms[i]) / std::abs(b.norms[i]));
  }
  d.first_norm = std::abs(a.norms[0] - b.norms[0]) / std::abs(b.norms[0]);
  d.gradient = worst_of(a.gradients, b.gradients, d.worst_gradient);
  d.parameter = worst_of(a.parameters, b.parameters, d.worst_parameter);
  return d;
}

}  // namespace titan::train
