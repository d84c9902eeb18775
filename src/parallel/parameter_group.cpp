#include "parallel/parameter_group.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/error.h"

namespace titan::parallel {

using at::Tensor;

namespace {

at::ScalarType reduce_dtype(const ShardOptions& options) {
  return at::promote_types(options.parameter_dtype, at::kFloat);
}

}  // namespace

comm::Placement shard_chunk(const comm::Placement& whole, int64_t ranks, int64_t rank) {
  comm::Placement chunk = whole;
  const comm::Range rows = comm::chunk(whole.part.shape[0], ranks, rank);
  chunk.part = whole.part.cut(0, rows);
  const comm::Range owned = comm::intersection(rows, {whole.owned.begin[0], whole.owned.shape[0]});
  chunk.owned.shape[0] = owned.count;
  chunk.owned.begin[0] = owned.count > 0 ? owned.begin - rows.begin : 0;
  return chunk;
}

ParameterGroup::ParameterGroup(std::string label, const std::vector<comm::Placement>& wholes,
                               const ShardOptions& options)
    : label_(std::move(label)), options_(options) {
  const int64_t ranks = options.shard.size();
  for (const auto& whole : wholes) {
    shapes_.push_back(whole.part.shape);
    const int64_t rows = whole.part.shape[0];
    rows_.push_back((rows + ranks - 1) / ranks);
    row_numel_.push_back(rows == 0 ? 0 : whole.part.numel() / rows);
    offsets_.push_back(chunk_numel_);
    chunk_numel_ += rows_.back() * row_numel_.back();
    placements_.push_back(shard_chunk(whole, ranks, options.shard.rank()));
  }
  // Padding stays zero for the life of the group.
  if (options.host) {
    master_ = options.host->allocate(chunk_numel_, options.parameter_dtype);
    chunk_sum_ = options.host->allocate(chunk_numel_, reduce_dtype(options));
  } else {
    master_ = at::zeros({chunk_numel_},
                        at::TensorOptions(options.parameter_dtype).device(options.device));
  }
  for (size_t i = 0; i < wholes.size(); ++i) {
    const auto& part = placements_[i].part;
    leaves_.push_back(
        master_.narrow(0, offsets_[i], part.numel()).view(part.shape).detach().requires_grad_());
  }
  is_master_ = options.shard.is_identity() && !options.host &&
               options.compute_dtype == options.parameter_dtype;
}

void ParameterGroup::start_gather() {
  if (unsharded_ || gather_out_.defined() || is_master_) return;
  const at::NoGradGuard no_grad;
  if (!options_.shard.is_identity()) {
    gather_out_ = at::empty({options_.shard.size() * chunk_numel_},
                            at::TensorOptions(options_.compute_dtype).device(options_.device));
  }
  // The message follows the copy on the stream of the copies; what is queued here already goes on.
  std::optional<CopyScope> scope;
  if (options_.host) scope.emplace(*options_.host);
  gather_in_ = scope ? options_.host->to_device(master_).to(options_.compute_dtype)
                     : master_.to(options_.compute_dtype);
  if (scope) fetched_ = scope->mark();
  if (options_.shard.is_identity()) {
    gather_out_ = gather_in_;
    return;
  }
  gathering_ = options_.shard.start_all_gather(gather_out_, gather_in_);
}

std::vector<Tensor> ParameterGroup::unpack(const Tensor& gathered) const {
  const int64_t ranks = options_.shard.size();
  const Tensor by_rank = gathered.view({ranks, chunk_numel_});
  // Whole parameters lie behind each other, as in the gathered buffer of one rank: neighbours can
  // be read as one matrix.
  const Tensor wholes = ranks == 1 ? gathered : at::empty_like(gathered);
  std::vector<Tensor> parameters;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const int64_t chunk = rows_[i] * row_numel_[i];
    auto padded = shapes_[i];
    padded[0] = rows_[i] * ranks;
    const Tensor rows = wholes.narrow(0, offsets_[i] * ranks, chunk * ranks);
    if (ranks > 1) rows.view({ranks, chunk}).copy_(by_rank.narrow(1, offsets_[i], chunk));
    parameters.push_back(rows.view(padded).narrow(0, 0, shapes_[i][0]));
  }
  return parameters;
}

void ParameterGroup::unshard() {
  if (unsharded_) return;
  const at::NoGradGuard no_grad;
  start_gather();
  gathering_.wait();
  fetched_.order();
  parameters_ = unpack(is_master_ ? master_ : gather_out_);
  gather_in_.reset();
  gather_out_.reset();
  unsharded_ = true;
}

void ParameterGroup::reshard() {
  gathering_.wait();
  fetched_.order();
  gather_in_.reset();
  gather_out_.reset();
  parameters_.clear();
  unsharded_ = false;
}

// packed [ranks, chunk_numel_]: row r holds chunk r of every parameter.
void ParameterGroup::add_rows(const Tensor& packed, size_t parameter,
                              const Tensor& gradient) const {
  const int64_t ranks = options_.shard.size();
  const int64_t chunk = rows_[parameter] * row_numel_[parameter];
  const Tensor place = packed.narrow(1, offsets_[parameter], chunk);
  const Tensor flat = gradient.reshape({-1});
  if (flat.numel() == ranks * chunk) {
    place.add_(flat.view({ranks, chunk}));
    return;
  }
  // The last chunks are short or empty.
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const comm::Range range = comm::intersection({rank * chunk, chunk}, {0, flat.numel()});
    if (range.count == 0) break;
    place[rank].narrow(0, 0, range.count).add_(flat.narrow(0, range.begin, range.count));
  }
}

// Gradients as they lie in a reduce-scatter's input.
Tensor ParameterGroup::pack(const std::vector<Tensor>& gradients) const {
  const int64_t ranks = options_.shard.size();
  const Tensor packed = at::empty(
      {ranks, chunk_numel_}, at::TensorOptions(reduce_dtype(options_)).device(options_.device));
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const int64_t chunk = rows_[i] * row_numel_[i];
    const Tensor place = packed.narrow(1, offsets_[i], chunk);
    if (gradients[i].defined() && gradients[i].numel() == ranks * chunk) {
      place.copy_(gradients[i].reshape({ranks, chunk}));
      continue;
    }
    place.zero_();
    if (gradients[i].defined()) add_rows(packed, i, gradients[i]);
  }
  return packed.view({-1});
}

void ParameterGroup::add(size_t parameter, const Tensor& gradient) {
  const at::NoGradGuard no_grad;
  if (!whole_sum_.defined()) whole_sum_ = pack(std::vector<Tensor>(shapes_.size()));
  add_rows(whole_sum_.view({options_.shard.size(), chunk_numel_}), parameter, gradient);
}

// No other rank and no host memory has a part in the gradients.
bool ParameterGroup::is_alone() const {
  return options_.shard.is_identity() && options_.replicate.is_identity() && !options_.host;
}

at::ScalarType ParameterGroup::gradient_dtype() const {
  return is_alone() ? options_.parameter_dtype : options_.compute_dtype;
}

void ParameterGroup::reduce(const std::vector<Tensor>& gradients, bool last) {
  const at::NoGradGuard no_grad;
  drain();
  if (is_alone() && last && !whole_sum_.defined() && !chunk_sum_.defined()) {
    only_ = gradients;
    reduce_last_ = has_reduced_ = true;
    return;
  }
  Tensor packed = std::exchange(whole_sum_, Tensor());
  if (!packed.defined()) {
    packed = pack(gradients);
  } else if (std::ranges::any_of(gradients, &Tensor::defined)) {
    packed.add_(pack(gradients));
  }
  if (!options_.shard_gradients && !last) {
    whole_sum_ = packed;
    return;
  }
  reduce_in_ = packed;
  reduce_last_ = last;
  has_reduced_ = true;
  if (options_.shard.is_identity()) {
    reduce_out_ = reduce_in_;
    return;
  }
  reduce_out_ = at::empty({chunk_numel_}, packed.options());
  reducing_ = options_.shard.start_reduce_scatter(reduce_out_, reduce_in_);
}

void ParameterGroup::drain() {
  if (!reduce_out_.defined()) return;
  const at::NoGradGuard no_grad;
  reducing_.wait();
  reduce_in_.reset();
  Tensor reduced = std::exchange(reduce_out_, Tensor());
  if (options_.host) return keep_on_host(std::move(reduced));
  if (chunk_sum_.defined()) {
    chunk_sum_.add_(reduced);
  } else {
    chunk_sum_ = std::move(reduced);
  }
  if (reduce_last_) replicating_ = options_.replicate.start_all_reduce(chunk_sum_);
}

// Adds a pass to the sum in host memory. All of it is queued behind the copies, so that neither the
// sum over the replicas nor the copy holds up the backward pass.
void ParameterGroup::keep_on_host(Tensor reduced) {
  const CopyScope scope(*options_.host);
  if (chunk_sum_begun_) reduced.add_(options_.host->to_device(chunk_sum_));
  if (reduce_last_) options_.replicate.start_all_reduce(reduced).wait();
  options_.host->to_host(chunk_sum_, reduced);
  chunk_sum_begun_ = true;
  kept_ = scope.mark();
}

void ParameterGroup::start_last_reduction() {
  if (has_reduced_ && reduce_last_) return;
  reduce(std::vector<Tensor>(shapes_.size()), true);
  // Replicas alone have nothing to wait for.
  if (options_.shard.is_identity()) drain();
}

void ParameterGroup::finish() {
  const at::NoGradGuard no_grad;
  // A group that no pass reached takes part in the reductions all the same: its peers may have
  // gradients.
  start_last_reduction();
  drain();
  replicating_.wait();
  kept_.wait_on_host();
  const auto only = std::exchange(only_, {});
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const auto& part = placements_[i].part;
    if (!only.empty()) {
      leaves_[i].mutable_grad() =
          only[i].defined() ? only[i].to(options_.parameter_dtype) : at::zeros_like(leaves_[i]);
      continue;
    }
    leaves_[i].mutable_grad() = chunk_sum_.narrow(0, offsets_[i], part.numel())
                                    .view(part.shape)
                                    .to(options_.parameter_dtype);
  }
  if (!options_.host) chunk_sum_.reset();
  chunk_sum_begun_ = false;
  has_reduced_ = reduce_last_ = false;
}

void ParameterGroup::abandon() {
  gathering_ = {};
  reducing_ = {};
  replicating_ = {};
  fetched_ = {};
  kept_ = {};
  for (Tensor* under_way : {&gather_in_, &gather_out_, &whole_sum_, &reduce_in_, &reduce_out_}) {
    under_way->reset();
  }
  parameters_.clear();
  only_.clear();
  if (!options_.host) chunk_sum_.reset();
  unsharded_ = chunk_sum_begun_ = has_reduced_ = reduce_last_ = false;
}

}  // namespace titan::parallel
