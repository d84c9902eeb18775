// [validation]: loss on held-out text while training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/field.h"
#include "config/sections/dataloader.h"

namespace titan::config {

struct Validation {
  bool enable = false;
  std::string dataset = "c4_validation";
  std::optional<std::string> dataset_path;
  int64_t local_batch_size = 8;
  int64_t seq_len = 2048;
  int64_t freq = 10;
  int64_t steps = -1;
  DataLoader dataloader;

  static constexpr void describe(auto&& field) {
    field("enable", &Validation::enable, "validate at step 1 and every freq-th step");
    field("dataset", &Validation::dataset, "name in the registry of datasets");
    field("dataset_path", &Validation::dataset_path,
          "file, folder or glob that replaces the dataset's own path");
    field("local_batch_size", &Validation::local_batch_size,
          "sequences per data-parallel rank and batch", at_least(1));
    field("seq_len", &Validation::seq_len, "tokens per sequence", at_least(1));
    field("freq", &Validation::freq, "steps between two validations", at_least(1));
    field("steps", &Validation::steps, "batches of one validation; -1: the whole dataset",
          at_least_or(1, -1));
    field("dataloader", &Validation::dataloader, "readers of the validation data");
  }
};
static_assert(complete<Validation>(), "describe() of Validation misses a member");

}  // namespace titan::config
