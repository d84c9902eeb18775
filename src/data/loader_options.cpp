#include "data/loader_options.h"

#include <algorithm>

#include "base/error.h"

namespace titan::data {
namespace {

void check_positive(int64_t value, const char* key) {
  if (value <= 0) throw Error("[data] {} = {} — it must be at least 1", key, value);
}

}  // namespace

void check(const LoaderOptions& o) {
  check_positive(o.seq_len, "training.seq_len");
  check_positive(o.local_batch_size, "training.local_batch_size");
  check_positive(o.global_batch_size, "training.global_batch_size");
  check_positive(o.threads, "data.threads");
  TITAN_CHECK(o.num_readers > 0 && o.reader >= 0 && o.reader < o.num_readers, "reader {} of {}",
              o.reader, o.num_readers);
  if (o.prefetch < 0) throw Error("[data] data.prefetch = {} — it must be 0 or more", o.prefetch);
  if (o.num_epochs && *o.num_epochs <= 0) {
    throw Error("[data] training.num_epochs = {} — it must be at least 1", *o.num_epochs);
  }
  const int64_t round = o.local_batch_size * o.num_readers;
  if (o.global_batch_size % round != 0) {
    throw Error(
        "[data] training.global_batch_size = {} is no multiple of local_batch_size x data-parallel "
        "readers = "
        "{} x {} = {} — the nearest are {} and {}",
        o.global_batch_size, o.local_batch_size, o.num_readers, round,
        std::max<int64_t>(1, o.global_batch_size / round) * round,
        (o.global_batch_size / round + 1) * round);
  }
  if (o.virtual_streams &&
      (*o.virtual_streams <= 0 || *o.virtual_streams % o.global_batch_size != 0)) {
    throw Error(
        "[data] data.virtual_streams = {} is no multiple of the global batch size {} — the nearest "
        "is {}",
        *o.virtual_streams, o.global_batch_size,
        std::max<int64_t>(1, *o.virtual_streams / o.global_batch_size) * o.global_batch_size);
  }
}

namespace {

DatasetRequest request_of(const char* section, const std::string& name,
                          const std::optional<std::string>& path, Split split,
                          const config::Data& data) {
  return {.name = name,
          .path = path.value_or(""),
          .split = split,
          .text_key = data.text_key,
          .text_document = parse_text_document(data.text_document),
          .key = section};
}

}  // namespace

LoaderOptions training_loader(const config::Training& training, const config::Data& data,
                              int64_t reader, int64_t num_readers) {
  LoaderOptions options;
  options.dataset =
      request_of("training", training.dataset, training.dataset_path, Split::kTrain, data);
  options.seq_len = training.seq_len;
  options.local_batch_size = training.local_batch_size;
  options.global_batch_size = training.global_batch_size > 0
                                  ? training.global_batch_size
                                  : training.local_batch_size * num_readers;
  options.reader = reader;
  options.num_readers = num_readers;
  options.virtual_streams = data.virtual_streams;
  options.num_epochs = training.num_epochs;
  options.prefetch = data.prefetch;
  options.threads = data.threads.value_or(1);
  return options;
}

LoaderOptions validation_loader(const config::Validation& validation, const config::Data& data,
                                int64_t reader, int64_t num_readers) {
  LoaderOptions options;
  options.dataset = request_of("validation", validation.dataset, validation.dataset_path,
                               Split::kValidation, data);
  options.seq_len = validation.seq_len;
  options.local_batch_size = validation.local_batch_size;
  options.global_batch_size = validation.local_batch_size * num_readers;
  options.reader = reader;
  options.num_readers = num_readers;
  if (validation.steps < 0) options.num_epochs = 1;
  options.prefetch = data.prefetch;
  options.threads = data.threads.value_or(1);
  return options;
}

}  // namespace titan::data
