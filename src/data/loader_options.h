// What a loader is made from, and how the config's sections say it.
#pragma once

#include <cstdint>
#include <optional>

#include "config/sections/data.h"
#include "config/sections/training.h"
#include "config/sections/validation.h"
#include "data/dataset.h"

namespace titan::data {

struct LoaderOptions {
  DatasetRequest dataset;
  int64_t seq_len = 2048;
  int64_t local_batch_size = 8;
  int64_t global_batch_size = 8;  // samples of a step over all readers and accumulation steps
  int64_t reader = 0;             // this process among the data-parallel readers
  int64_t num_readers = 1;
  std::optional<int64_t> virtual_streams;  // default: the global batch size
  std::optional<int64_t> num_epochs;       // nullopt: endless, the set is re-looped
  int64_t prefetch = 2;  // batches made ahead; 0: made in next(), without a thread
  int64_t threads = 1;   // that tokenise
  int64_t cache_bytes = 128 << 20;
};

// Throws Error naming key, value and the nearest legal one.
void check(const LoaderOptions& options);

// The training set, for reader `reader` of the `num_readers` data-parallel ones. Endless unless
// training.num_epochs is set.
LoaderOptions training_loader(const config::Training& training, const config::Data& data,
                              int64_t reader, int64_t num_readers);

// The validation set: with validation.steps = -1 one finite pass over all of it, else endless (take
// that many batches).
LoaderOptions validation_loader(const config::Validation& validation, const config::Data& data,
                                int64_t reader, int64_t num_readers);

}  // namespace titan::data
