// Parameters that are gathered and reduced together (FSDP2 semantics: Zhao et al. 2023, arXiv
// 2304.11277; ZeRO: Rajbhandari et al. 2020, arXiv 1910.02054). Each rank of the shard axis holds a
// chunk of rows of every parameter; all chunks lie in one flat master buffer, so that a gather is
// one all-gather and a reduction one reduce-scatter. DDP, ZeRO-1, -2, -3 and HSDP are settings of
// this one mechanism.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/group.h"
#include "comm/placement.h"
#include "parallel/host_copies.h"

namespace titan::parallel {

// What rank `rank` of `ranks` on the shard axis holds of `whole`: a chunk of its rows.
comm::Placement shard_chunk(const comm::Placement& whole, int64_t ranks, int64_t rank);

struct ShardOptions {
  comm::Group shard;      // ranks that share the parameters
  comm::Group replicate;  // ranks that hold the same chunk
  at::ScalarType parameter_dtype = at::kFloat;
  at::ScalarType compute_dtype = at::kFloat;
  at::Device device = at::kCPU;
  // Where chunks, their gradients and the optimizer's states lie in host memory; null: on the
  // device.
  std::shared_ptr<HostCopies> host;
  // Frees gathered parameters after each use, in the forward pass too (ZeRO-3).
  bool reshard_after_forward = true;
  // Gradients of every micro-batch are reduced to chunks at once (ZeRO-2, ZeRO-3); else they are
  // summed whole and reduced once a step (ZeRO-1, DDP).
  bool shard_gradients = true;
};

class ParameterGroup {
 public:
  // `wholes`: what this rank holds before the parameters are cut over the shard axis. Leaves are
  // uninitialised. Collective by its later calls only.
  ParameterGroup(std::string label, const std::vector<comm::Placement>& wholes,
                 const ShardOptions& options);
  ParameterGroup(const ParameterGroup&) = delete;
  ParameterGroup& operator=(const ParameterGroup&) = delete;

  const std::string& label() const { return label_; }
  size_t size() const { return leaves_.size(); }
  const ShardOptions& options() const { return options_; }
  // The chunks: leaves of the optimizer, views of the master buffer; chunks may have no rows.
  const std::vector<at::Tensor>& leaves() const { return leaves_; }
  const std::vector<comm::Placement>& placements() const { return placements_; }

  // Starts the all-gather of the parameters unless they are here or on their way.
  void start_gather();
  // Parameters whole, in the compute dtype, until reshard().
  void unshard();
  void reshard();
  bool is_unsharded() const { return unsharded_; }
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  // True when parameters() are the master buffer itself: nothing is ever gathered or freed.
  bool is_master() const { return is_master_; }

  // The dtype of gradients that reduce() takes without a copy.
  at::ScalarType gradient_dtype() const;
  // Takes the gradients of one backward pass (undefined: zero) and starts to reduce them. `last`:
  // no further pass of this step.
  void reduce(const std::vector<at::Tensor>& gradients, bool last);
  // Adds the gradient of one parameter to what reduce() will take (a weight gradient put off).
  void add(size_t parameter, const at::Tensor& gradient);
  // What was taken and added is all of the step: its reduction starts, unless reduce() was told so.
  void start_last_reduction();
  // Waits for the reduction that reduce() started.
  void drain();
  // Whether the last pass of this step is reduced, or on its way: finish() may follow.
  bool has_last_gradients() const { return has_reduced_ && reduce_last_; }
  // After the last pass of a step: the leaves get their gradients. Without a pass they are zero.
  void finish();
  // Forgets what a step had gathered and reduced so far, without waiting for it.
  void abandon();

 private:
  bool is_alone() const;
  at::Tensor pack(const std::vector<at::Tensor>& gradients) const;
  void add_rows(const at::Tensor& packed, size_t parameter, const at::Tensor& gradient) const;
  std::vector<at::Tensor> unpack(const at::Tensor& gathered) const;
  void keep_on_host(at::Tensor reduced);

  std::string label_;
  ShardOptions options_;
  std::vector<std::vector<int64_t>> shapes_;  // whole, of this tensor-parallel rank
  std::vector<int64_t> rows_, row_numel_;     // rows of a chunk, elements of a row
  std::vector<int64_t> offsets_;              // in a chunk of the master
  int64_t chunk_numel_ = 0;                   // of the master, padding included
  at::Tensor master_;
  std::vector<at::Tensor> leaves_;
  std::vector<comm::Placement> placements_;
  bool is_master_ = false;

  bool unsharded_ = false;
  at::Tensor gather_in_, gather_out_;
  comm::Pending gathering_;
  CopyMark fetched_;
  std::vector<at::Tensor> parameters_;

  at::Tensor whole_sum_;  // gradients of earlier passes, whole, when they are not sharded
  at::Tensor reduce_in_, reduce_out_;
  bool reduce_last_ = false, has_reduced_ = false;
  comm::Pending reducing_, replicating_;
  // The gradients of the only pass of a step, where no other rank has a part in them.
  std::vector<at::Tensor> only_;
  at::Tensor chunk_sum_;          // reduced gradients of the step; with host copies in host memory
  bool chunk_sum_begun_ = false;  // of the step, in host memory
  CopyMark kept_;
};

}  // namespace titan::parallel
