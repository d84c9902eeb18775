// index.json of a step folder: which tensor lies in which file, with type, global shape and
// checksum, and the small state. The file is what makes a step folder complete. Format version 1;
// what must never change for it:
//   {"format": "titan-checkpoint", "version": 1, "step": N, "files": {NAME: BYTES}, "state": {…},
//   "xxh3": HEX,
//    "tensors": {NAME: {"file", "dtype" (safetensors' tags), "shape", "xxh3" (16 hex digits, of the
//    bytes in the file)}}}
// where the outer "xxh3" is that of the object's compact text, keys sorted, without that member. A
// reader refuses a higher version; a writer that changes the meaning of a member raises it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/safetensors_writer.h"

namespace titan::checkpoint {

inline constexpr const char* kIndexFile = "index.json";
inline constexpr int64_t kFormatVersion = 1;

struct IndexedTensor {
  std::string file;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  uint64_t xxh3 = 0;

  int64_t numel() const;
  int64_t bytes() const;
};

struct Index {
  int64_t step = 0;
  std::map<std::string, int64_t> files;  // name -> bytes
  std::map<std::string, IndexedTensor> tensors;
  nlohmann::json state = nlohmann::json::object();

  bool has_optimizer() const;
};

// Adds what write_safetensors wrote.
void add(Index& index, const Written& written);

std::string to_text(const Index& index);
// Throws Error naming file and member when the text is damaged, of another format or of a newer
// version.
Index read_index(const std::filesystem::path& step_folder);

}  // namespace titan::checkpoint
