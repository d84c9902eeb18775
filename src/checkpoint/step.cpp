#include "checkpoint/step.h"

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/dtype.h"
#include "checkpoint/step_folder.h"

namespace titan::checkpoint {
namespace fs = std::filesystem;
namespace {

std::string described(at::ScalarType dtype, at::IntArrayRef shape) {
  return fmt::format("{} [{}]", tag_of_dtype(dtype), fmt::join(shape.vec(), ", "));
}

const char* other_format(const fs::path& folder) {
  if (fs::exists(folder / "model.safetensors.index.json") ||
      fs::exists(folder / "model.safetensors")) {
    return " — it is a Hugging Face folder: set checkpoint.initial_load_in_hf, or titan checkpoint "
           "import";
  }
  if (fs::exists(folder / ".metadata"))
    return " — it is a PyTorch DCP folder, which this titan does not read";
  if (!list_steps(folder).empty()) return " — it holds step folders, name one of them";
  return "";
}

fs::path checked_folder(fs::path folder) {
  if (!fs::is_directory(folder)) throw Error("[checkpoint] there is no folder {}", folder.string());
  if (!fs::is_regular_file(folder / kIndexFile)) {
    throw Error("[checkpoint] {} is no checkpoint of titan: it has no {}{}", folder.string(),
                kIndexFile, other_format(folder));
  }
  return folder;
}

}  // namespace

void check_against_index(const SafetensorsFile& file, const std::string& name, const Index& index) {
  const std::string what = fmt::format("[checkpoint] {}", file.path().string());
  const int64_t expected = index.files.at(name);
  if (file.size_bytes() != expected) {
    throw Error("{} has {} bytes, {} says {} — the file is cut off or was replaced", what,
                file.size_bytes(), kIndexFile, expected);
  }
  for (const auto& [tensor_name, tensor] : file.tensors()) {
    const auto found = index.tensors.find(tensor_name);
    if (found == index.tensors.end() || found->second.file != name) {
      throw Error("{} holds the tensor '{}', which {} does not list for it", what, tensor_name,
                  kIndexFile);
    }
    const auto& indexed = found->second;
    if (indexed.dtype != tensor.dtype || indexed.shape != tensor.shape) {
      throw Error("{}: tensor '{}' is {}, {} says {}", what, tensor_name,
                  described(tensor.dtype, tensor.shape), kIndexFile,
                  described(indexed.dtype, indexed.shape));
    }
  }
}

Step::Step(fs::path folder)
    : folder_(checked_folder(std::move(folder))), index_(read_index(folder_)) {
  for (const auto& [name, bytes] : index_.files) {
    if (!fs::is_regular_file(folder_ / name)) {
      throw Error("[checkpoint] {} is missing, {} lists it with {} bytes",
                  (folder_ / name).string(), kIndexFile, bytes);
    }
    const auto& file = files_.emplace(name, SafetensorsFile(folder_ / name)).first->second;
    check_against_index(file, name, index_);
  }
  for (const auto& [name, tensor] : index_.tensors) {
    const auto file = files_.find(tensor.file);
    if (file == files_.end() || !file->second.tensors().contains(name)) {
      throw Error("[checkpoint] {}: tensor '{}' should be in {}, which does not hold it",
                  folder_.string(), name, tensor.file);
    }
  }
}

bool Step::has(Part part) const {
  for (const auto& [name, tensor] : index_.tensors) {
    if (part_of(name) == part) return true;
  }
  return false;
}

const SafetensorsFile& Step::file_of(const std::string& name) const {
  const auto found = index_.tensors.find(name);
  if (found == index_.tensors.end())
    throw Error("[checkpoint] {} holds no tensor '{}'", folder_.string(), name);
  return files_.at(found->second.file);
}

std::optional<uint64_t> Step::damaged(const std::string& name) const {
  const uint64_t computed = hash::xxh3(file_of(name).bytes(name));
  if (computed == index_.tensors.at(name).xxh3) return std::nullopt;
  return computed;
}

at::Tensor Step::view(const std::string& name, bool verify) const {
  const SafetensorsFile& file = file_of(name);
  if (const auto computed = verify ? damaged(name) : std::nullopt) {
    throw Error(
        "[checkpoint] {}: tensor '{}' is damaged: its bytes have the checksum {}, {} is stored — "
        "use another step",
        file.path().string(), name, hash::hex(*computed), hash::hex(index_.tensors.at(name).xxh3));
  }
  return file.view(name);
}

}  // namespace titan::checkpoint
