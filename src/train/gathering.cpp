#include "train/gathering.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "train/assembly.h"

namespace titan::train {
namespace {

constexpr int64_t kDone = -1, kFailed = -2;
constexpr int64_t kTag = 7;

}  // namespace

Gathering::Gathering(const TrainingState& state) : state_(state) {
  // A copy of a tied weight that the first stage answers for does not count.
  const auto keep = [&](const checkpoint::NamedTensor& tensor) {
    const bool counts = !tensor.placement || tensor.placement->owned.numel() > 0;
    if (counts || !mine_.contains(tensor.name)) mine_[tensor.name] = tensor.tensor;
  };
  for (const auto& tensor : model_tensors(state)) keep(tensor);
  for (const auto& tensor : optimizer_tensors(state)) keep(tensor);
  for (const auto& placement : state.placements) {
    if (placement.owned.numel() > 0) owned_here_[placement.name] = placement.owned;
  }
  std::vector<std::pair<std::string, bool>> kinds;  // of optimizer state, and whether scalar
  const std::string& first = state.placements.front().name;
  state.optimizer->visit_state([&](const std::string& name, at::Tensor& tensor) {
    const size_t dot = name.find('.');
    if (name.substr(dot + 1) == first) kinds.emplace_back(name.substr(0, dot), tensor.dim() == 0);
  });
  const auto dtype = mine_.at(first).scalar_type();
  const auto parameters = models::parameter_shapes(state.args());
  for (const auto& [name, shape] : parameters) {
    shapes_[name] = shape;
    entries_.push_back({name, name, dtype});
  }
  model_count_ = entries_.size();
  for (const auto& [name, shape] : parameters) {
    for (const auto& [kind, scalar] : kinds) {
      entries_.push_back(
          {checkpoint::optimizer_name(kind, name), name, scalar ? at::kFloat : dtype, scalar});
    }
  }
}

comm::Box Gathering::owned_at(int64_t rank, const std::string& parameter) const {
  const auto& shape = state_.mesh.shape;
  comm::Box owned =
      placement_at(state_.args(), shape, state_.pipeline.get(), rank, parameter).owned_of_whole();
  if (comm::coordinates_of(shape, rank).dp_replicate > 0) owned.shape[0] = 0;
  return owned;
}

checkpoint::TensorSource Gathering::source(size_t entry,
                                           std::optional<at::ScalarType> cast_to) const {
  const Entry& e = entries_[entry];
  return {e.name, cast_to.value_or(e.dtype),
          e.scalar ? std::vector<int64_t>() : shapes_.at(e.parameter),
          [this, entry] { return ask(entry); }};
}

std::vector<checkpoint::TensorSource> Gathering::model(
    std::optional<at::ScalarType> cast_to) const {
  std::vector<checkpoint::TensorSource> sources;
  for (size_t i = 0; i < model_count_; ++i) sources.push_back(source(i, cast_to));
  return sources;
}

std::vector<checkpoint::TensorSource> Gathering::optimizer() const {
  std::vector<checkpoint::TensorSource> sources;
  for (size_t i = model_count_; i < entries_.size(); ++i) {
    sources.push_back(source(i, std::nullopt));
  }
  return sources;
}

// Numbers are equal for all parameters: those of other stages are read from one of this rank's.
std::string Gathering::scalar_here(const std::string& name) const {
  if (mine_.contains(name)) return name;
  const std::string kind = name.substr(0, name.find('.', checkpoint::kOptimizerPrefix.size()));
  return kind + "." + state_.placements.front().name;
}

at::Tensor Gathering::ask(size_t entry) const {
  const at::NoGradGuard no_grad;
  const Entry& e = entries_[entry];
  if (e.scalar) return mine_.at(scalar_here(e.name));
  const auto& mesh = state_.mesh;
  at::Tensor number = at::tensor({static_cast<int64_t>(entry)}, at::kLong);
  mesh.world.broadcast(number, 0);
  at::Tensor whole = at::empty(shapes_.at(e.parameter), at::TensorOptions(e.dtype));
  for (int64_t rank = 0; rank < mesh.shape.world(); ++rank) {
    const comm::Box box = owned_at(rank, e.parameter);
    if (box.numel() == 0) continue;
    if (rank == mesh.rank) {
      box.of(whole).copy_(owned_here_.at(e.parameter).of(mine_.at(e.name)));
      continue;
    }
    at::Tensor part = at::empty(box.shape, whole.options());
    mesh.world.start_receive(part, rank, kTag).wait();
    box.of(whole).copy_(part);
  }
  return whole;
}

void Gathering::answer(size_t entry) const {
  const Entry& e = entries_[entry];
  if (owned_at(state_.mesh.rank, e.parameter).numel() == 0) return;
  const at::Tensor part = owned_here_.at(e.parameter).of(mine_.at(e.name));
  state_.mesh.world.start_send(part.to(at::kCPU).contiguous(), 0, kTag).wait();
}

void Gathering::finish(bool written) const {
  at::Tensor number = at::tensor({written ? kDone : kFailed}, at::kLong);
  state_.mesh.world.broadcast(number, 0);
}

void Gathering::serve() const {
  const at::NoGradGuard no_grad;
  at::Tensor number = at::zeros({1}, at::kLong);
  while (true) {
    state_.mesh.world.broadcast(number, 0);
    const int64_t entry = number.item<int64_t>();
    if (entry == kDone) return;
    if (entry == kFailed) {
      throw EnvironmentError(
          "[checkpoint] rank 0 could not write the checkpoint; its message says why");
    }
    answer(static_cast<size_t>(entry));
  }
}

}  // namespace titan::train
