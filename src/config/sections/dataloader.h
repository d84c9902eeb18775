// [training.dataloader] and [validation.dataloader]: how batches are prefetched.
#pragma once

#include <cstdint>
#include <optional>

#include "config/field.h"

namespace titan::config {

struct DataLoader {
  int64_t num_workers = 0;
  bool persistent_workers = false;
  bool pin_memory = false;
  std::optional<int64_t> prefetch_factor;

  static constexpr void describe(auto&& field) {
    field("num_workers", &DataLoader::num_workers,
          "reader threads; 0: chosen by titan (data.threads)", between(0, 4096));
    field("persistent_workers", &DataLoader::persistent_workers,
          "keep the readers alive between epochs");
    field("pin_memory", &DataLoader::pin_memory, "stage batches in page-locked memory");
    field("prefetch_factor", &DataLoader::prefetch_factor, "batches each reader loads ahead",
          between(1, 4096));
  }
};
static_assert(complete<DataLoader>(), "describe() of DataLoader misses a member");

}  // namespace titan::config
