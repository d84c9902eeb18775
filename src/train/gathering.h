// Whole tensors of a sharded run, put together on rank 0 one at a time while a checkpoint is
// written, so that no rank ever holds more than one. Rank 0 asks by number; the others answer until
// it is done.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/safetensors_writer.h"
#include "train/state.h"

namespace titan::train {

class Gathering {
 public:
  // Refers to `state`, which must not change before the end. Made on all ranks.
  explicit Gathering(const TrainingState& state);

  // Rank 0: what to write. Each make() asks the other ranks. `cast_to`: for floating tensors.
  std::vector<checkpoint::TensorSource> model(
      std::optional<at::ScalarType> cast_to = std::nullopt) const;
  std::vector<checkpoint::TensorSource> optimizer() const;

  // Rank 0: lets the others go. `written` false: they end with an error.
  void finish(bool written) const;
  // The others: answers rank 0 until it is done. Throws EnvironmentError when it could not write.
  void serve() const;

 private:
  struct Entry {
    std::string name;       // in the checkpoint
    std::string parameter;  // whose placement it has
    at::ScalarType dtype = at::kFloat;
    bool scalar = false;  // a number per parameter, equal on all ranks
  };

  checkpoint::TensorSource source(size_t entry, std::optional<at::ScalarType> cast_to) const;
  at::Tensor ask(size_t entry) const;
  void answer(size_t entry) const;
  std::string scalar_here(const std::string& name) const;
  comm::Box owned_at(int64_t rank, const std::string& parameter) const;

  const TrainingState& state_;
  std::vector<Entry> entries_;  // the same on all ranks; the first model_count_ are the model's
  size_t model_count_ = 0;
  std::unordered_map<std::string, at::Tensor> mine_;
  std::unordered_map<std::string, comm::Box> owned_here_;
  std::unordered_map<std::string, std::vector<int64_t>> shapes_;
};

}  // namespace titan::train
