// Reading one step folder. Opening it checks that every file of the index is there, whole, and
// holds exactly the tensors the index says; values are checked against their checksums when they
// are loaded.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/index.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/state.h"

namespace titan::checkpoint {

class Step {
 public:
  // Throws Error naming file and numbers when the folder is no complete checkpoint or its files do
  // not match its index.
  explicit Step(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  const Index& index() const { return index_; }
  const nlohmann::json& state() const { return index_.state; }
  bool has(Part part) const;

  // A read-only CPU view of the stored bytes (see SafetensorsFile::view), checked against its
  // checksum when `verify`. Throws Error when the tensor does not exist or is damaged.
  at::Tensor view(const std::string& name, bool verify = true) const;

  // nullopt when the stored bytes have their checksum; else the checksum that they have.
  std::optional<uint64_t> damaged(const std::string& name) const;

 private:
  const SafetensorsFile& file_of(const std::string& name) const;

  std::filesystem::path folder_;
  Index index_;
  std::map<std::string, SafetensorsFile> files_;
};

// Throws Error unless the file has the size and exactly the tensors that the index lists for it.
void check_against_index(const SafetensorsFile& file, const std::string& name, const Index& index);

}  // namespace titan::checkpoint
