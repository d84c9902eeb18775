// Reading safetensors files, strictly: a file is accepted whole or refused by name before any
// tensor of it is used. Layout (fixed by the format): u64 little-endian header length, JSON header,
// data. Each header entry has dtype, shape and [begin, end) in the data; here the entries must
// cover the data exactly once and be aligned to their element size.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace titan::checkpoint {

struct StoredTensor {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // bytes from the start of the data
  int64_t end = 0;
};

class SafetensorsFile {
 public:
  // Maps the file and checks all of it but the values. Throws Error naming file, tensor and
  // numbers.
  explicit SafetensorsFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  int64_t size_bytes() const { return static_cast<int64_t>(map_->bytes().size()); }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

  // REQUIRES: the tensor is in tensors().
  std::string_view bytes(const std::string& name) const;
  // A CPU tensor over the mapped file, no copy; it keeps the map alive. Never write to it: the map
  // is read-only.
  at::Tensor view(const std::string& name) const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<files::Map> map_;
  int64_t data_begin_ = 0;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace titan::checkpoint
