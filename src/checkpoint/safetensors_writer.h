// Writing safetensors files tensor by tensor: a tensor is made when its turn comes and goes
// straight to the file, so no second copy of a model is in memory.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/state.h"

namespace titan::checkpoint {

// A tensor that is to be written. `make` is called once, when its turn comes, and returns a tensor
// of `shape` on any device; it is cast to `dtype` in pieces while it is written.
struct TensorSource {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  std::function<at::Tensor()> make;

  int64_t bytes() const;
};

// Sources of tensors that exist; floating tensors are stored as `cast_to` when it is given. Throws
// Error for a type that cannot be stored.
std::vector<TensorSource> sources_of(std::span<const NamedTensor> tensors,
                                     std::optional<at::ScalarType> cast_to = std::nullopt);

struct WrittenTensor {
  std::string name;
  std::string file;  // name inside the folder
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  uint64_t xxh3 = 0;  // of the bytes in the file
};

struct WrittenFile {
  std::string name;
  int64_t bytes = 0;
};

struct Written {
  std::vector<WrittenFile> files;
  std::vector<WrittenTensor> tensors;
};

// Bytes of all tensors plus a bound of the headers.
int64_t bytes_needed(std::span<const TensorSource> sources);

// Writes <stem>-00001-of-0000n.safetensors … into `folder`, flushed to disk; a file takes tensors
// in the given order until the next would exceed `max_file_bytes` (a larger tensor gets a file of
// its own). Inside a file wider element types come first, so that every tensor is aligned. Names
// must be unique (TITAN_CHECK). Throws EnvironmentError when writing fails.
Written write_safetensors(const std::filesystem::path& folder, const std::string& stem,
                          std::span<const TensorSource> sources, int64_t max_file_bytes);

}  // namespace titan::checkpoint
