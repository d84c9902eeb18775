// Hugging Face model folders: model.safetensors, or shards with model.safetensors.index.json. The
// area knows no model: how names and layouts translate is passed in as ForeignNames (models/hf.h
// has the functions).
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/state.h"

namespace titan::checkpoint {

inline constexpr const char* kHfIndexFile = "model.safetensors.index.json";

// How a family's parameters are called and laid out elsewhere. A tensor's shape is the same on both
// sides.
struct ForeignNames {
  std::function<std::string(const std::string& name)> foreign_name;
  std::function<at::Tensor(const std::string& name, const at::Tensor& foreign)> from_foreign;
  std::function<at::Tensor(const std::string& name, const at::Tensor& tensor)> to_foreign;
  std::function<bool(const std::string& foreign)> ignored;  // entries that carry no parameter

  // Of any object with these four member functions (models::HfNames).
  template <class Names>
  static ForeignNames of(Names names) {
    return {.foreign_name = [=](const std::string& name) { return names.foreign_name(name); },
            .from_foreign = [=](const std::string& name,
                                const at::Tensor& t) { return names.from_foreign(name, t); },
            .to_foreign = [=](const std::string& name,
                              const at::Tensor& t) { return names.to_foreign(name, t); },
            .ignored = [=](const std::string& name) { return names.ignored(name); }};
  }
};

class HfFolder {
 public:
  // Opens and checks every file. Throws Error naming file and tensor: no safetensors here, a shard
  // missing or damaged, a tensor in two shards or not in the shard that the index names.
  explicit HfFolder(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  std::vector<std::string> names() const;
  // nullptr when the folder has no such tensor.
  const StoredTensor* find(const std::string& name) const;
  at::Tensor view(const std::string& name) const;  // see SafetensorsFile::view

 private:
  void open(const std::string& file);

  std::filesystem::path folder_;
  std::map<std::string, SafetensorsFile> files_;
  std::map<std::string, std::string> file_of_;  // tensor -> file
};

// Copies the folder's tensors into `targets` (named as titan names them), converting element types.
// All names and shapes are checked before the first copy; throws Error for missing or unexpected
// tensors and other shapes.
// `elsewhere`: parameters of the model that other ranks load.
void load_hf(const HfFolder& folder, std::span<const NamedTensor> targets,
             const ForeignNames& names, std::span<const NamedShape> elsewhere = {});

// The folder's tensors under titan's names, made one at a time as they are written; of `parameters`
// (name, shape), stored as `cast_to` or else as the folder has them. The sources refer to `folder`
// and `names`. Throws like load_hf.
std::vector<TensorSource> hf_sources(const HfFolder& folder, std::span<const NamedShape> parameters,
                                     const ForeignNames& names,
                                     std::optional<at::ScalarType> cast_to);

struct HfExport {
  std::string config_json;                    // text of config.json
  std::vector<std::filesystem::path> assets;  // files that are copied along (tokenizer)
  int64_t max_file_bytes = int64_t{5} << 30;
};

// Writes shards, index, config.json and assets to `target` (a step folder or any other), committed
// by one rename; an older folder of that name is replaced. Returns the bytes. `model` has titan's
// names.
int64_t save_hf(const std::filesystem::path& target, std::span<const TensorSource> model,
                const ForeignNames& names, const HfExport& options);

// The tokenizer's and the generation's files in a Hugging Face folder or beside a tokenizer file:
// what an export copies.
std::vector<std::filesystem::path> hf_assets_in(const std::filesystem::path& folder);

}  // namespace titan::checkpoint
