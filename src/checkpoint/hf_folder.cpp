#include "checkpoint/hf_folder.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/dtype.h"
#include "checkpoint/step_folder.h"

namespace titan::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr const char* kSingleFile = "model.safetensors";
// Copied along with an export when they are there; weights and code are not.
constexpr const char* kAssetNames[] = {"tokenizer.json",
                                       "tokenizer.model",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "vocab.json",
                                       "merges.txt",
                                       "chat_template.jinja",
                                       "chat_template.json",
                                       "generation_config.json",
                                       "tekken.json"};

// Every parameter must be there in its shape, and nothing else but ignored entries.
void check_contents(const HfFolder& folder, std::span<const NamedShape> parameters,
                    const ForeignNames& names) {
  const std::string what = fmt::format("[checkpoint] {}", folder.folder().string());
  std::set<std::string> wanted;
  std::vector<std::string> missing, unexpected;
  for (const auto& parameter : parameters) {
    const std::string foreign = names.foreign_name(parameter.name);
    wanted.insert(foreign);
    if (!folder.find(foreign)) missing.push_back(foreign);
  }
  for (const auto& name : folder.names()) {
    if (!wanted.contains(name) && !names.ignored(name)) unexpected.push_back(name);
  }
  if (!missing.empty()) {
    throw Error("{} lacks {} of {} tensors: {} — is it of another model or size{}?", what,
                missing.size(), parameters.size(), text::listed(missing),
                missing.front() == "lm_head.weight"
                    ? ", or are its embeddings tied (tie_word_embeddings)"
                    : "");
  }
  if (!unexpected.empty()) {
    throw Error("{} holds {} tensors that this model has not: {} — is it of another model or size?",
                what, unexpected.size(), text::listed(unexpected));
  }
  for (const auto& parameter : parameters) {
    const std::string foreign = names.foreign_name(parameter.name);
    if (const auto& shape = folder.find(foreign)->shape; shape != parameter.shape) {
      throw Error("{}: '{}' has the shape [{}], the model needs [{}] for '{}'", what, foreign,
                  fmt::join(shape, ", "), fmt::join(parameter.shape, ", "), parameter.name);
    }
  }
}

std::string hf_index_text(const Written& written) {
  nlohmann::json weight_map = nlohmann::json::object();
  int64_t bytes = 0;
  for (const auto& tensor : written.tensors) {
    weight_map[tensor.name] = tensor.file;
    int64_t numel = 1;
    for (const int64_t size : tensor.shape) numel *= size;
    bytes += numel * static_cast<int64_t>(c10::elementSize(tensor.dtype));
  }
  const nlohmann::json index = {{"metadata", {{"total_size", bytes}}},
                                {"weight_map", std::move(weight_map)}};
  return index.dump(2) + "\n";
}

std::vector<TensorSource> foreign_sources(std::span<const TensorSource> model,
                                          const ForeignNames& names) {
  std::vector<TensorSource> sources(model.begin(), model.end());
  for (auto& source : sources) {
    source.make = [&names, name = source.name, make = std::move(source.make)] {
      return names.to_foreign(name, make());
    };
    source.name = names.foreign_name(source.name);
  }
  return sources;
}

}  // namespace

HfFolder::HfFolder(fs::path folder) : folder_(std::move(folder)) {
  if (!fs::is_directory(folder_))
    throw Error("[checkpoint] there is no folder {}", folder_.string());
  if (!fs::is_regular_file(folder_ / kHfIndexFile)) {
    if (!fs::is_regular_file(folder_ / kSingleFile)) {
      throw Error(
          "[checkpoint] {} has neither {} nor {}{}", folder_.string(), kSingleFile, kHfIndexFile,
          fs::exists(folder_ / "pytorch_model.bin") ||
                  fs::exists(folder_ / "pytorch_model.bin.index.json")
              ? " — pickled weights (pytorch_model.bin) are not read, convert them to safetensors"
              : "");
    }
    open(kSingleFile);
    return;
  }
  const std::string what = fmt::format("[checkpoint] {}", (folder_ / kHfIndexFile).string());
  const auto index = json::parse_strict(files::read(folder_ / kHfIndexFile), what);
  const auto& map = json::member(index, "weight_map", what);
  if (!map.is_object() || map.empty()) throw Error("{}: 'weight_map' names no tensors", what);
  std::set<std::string> shards;
  for (const auto& [tensor, file] : map.items()) {
    const std::string shard = json::string_member(map, tensor.c_str(), what + ": weight_map");
    if (shard.empty() || shard.find('/') != std::string::npos) {
      throw Error("{}: '{}' is in \"{}\", a file name is needed", what, tensor, shard);
    }
    shards.insert(shard);
  }
  for (const auto& shard : shards) {
    if (!fs::is_regular_file(folder_ / shard)) {
      throw Error("[checkpoint] {} is missing, {} names it", (folder_ / shard).string(),
                  kHfIndexFile);
    }
    open(shard);
  }
  for (const auto& [tensor, file] : map.items()) {
    const auto found = file_of_.find(tensor);
    if (found == file_of_.end() || found->second != file.get<std::string>()) {
      throw Error("{}: '{}' should be in {}, which does not hold it", what, tensor,
                  file.get<std::string>());
    }
  }
}

void HfFolder::open(const std::string& file) {
  const auto& opened = files_.emplace(file, SafetensorsFile(folder_ / file)).first->second;
  for (const auto& [name, tensor] : opened.tensors()) {
    if (const auto [at, added] = file_of_.emplace(name, file); !added) {
      throw Error("[checkpoint] {}: tensor '{}' is in {} and in {}", folder_.string(), name,
                  at->second, file);
    }
  }
}

std::vector<std::string> HfFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : file_of_) names.push_back(name);
  return names;
}

const StoredTensor* HfFolder::find(const std::string& name) const {
  const auto file = file_of_.find(name);
  return file == file_of_.end() ? nullptr : &files_.at(file->second).tensors().at(name);
}

at::Tensor HfFolder::view(const std::string& name) const {
  const auto file = file_of_.find(name);
  if (file == file_of_.end())
    throw Error("[checkpoint] {} holds no tensor '{}'", folder_.string(), name);
  return files_.at(file->second).view(name);
}

void load_hf(const HfFolder& folder, std::span<const NamedTensor> targets,
             const ForeignNames& names, std::span<const NamedShape> elsewhere) {
  std::vector<NamedShape> parameters(elsewhere.begin(), elsewhere.end());
  for (const auto& target : targets) parameters.push_back({target.name, target.shape()});
  check_contents(folder, parameters, names);
  const at::NoGradGuard no_grad;
  for (const auto& target : targets) {
    at::Tensor destination = target.tensor;
    destination.copy_(target.part_of(
        names.from_foreign(target.name, folder.view(names.foreign_name(target.name)))));
  }
}

std::vector<TensorSource> hf_sources(const HfFolder& folder, std::span<const NamedShape> parameters,
                                     const ForeignNames& names,
                                     std::optional<at::ScalarType> cast_to) {
  check_contents(folder, parameters, names);
  std::vector<TensorSource> sources;
  for (const auto& parameter : parameters) {
    const std::string foreign = names.foreign_name(parameter.name);
    sources.push_back({parameter.name, cast_to.value_or(folder.find(foreign)->dtype),
                       parameter.shape, [&folder, &names, name = parameter.name, foreign] {
                         return names.from_foreign(name, folder.view(foreign));
                       }});
  }
  return sources;
}

int64_t save_hf(const fs::path& target, std::span<const TensorSource> model,
                const ForeignNames& names, const HfExport& options) {
  const auto sources = foreign_sources(model, names);
  check_free_space(target, bytes_needed(sources));
  PartialFolder partial(target);
  const Written written =
      write_safetensors(partial.path(), "model", sources, options.max_file_bytes);
  for (const auto& asset : options.assets) {
    files::write_atomically(partial.path() / asset.filename(), files::read(asset));
  }
  files::write_atomically(partial.path() / "config.json", options.config_json);
  files::write_atomically(partial.path() / kHfIndexFile, hf_index_text(written));
  partial.commit();
  int64_t bytes = 0;
  for (const auto& file : written.files) bytes += file.bytes;
  return bytes;
}

std::vector<fs::path> hf_assets_in(const fs::path& folder) {
  std::vector<fs::path> assets;
  for (const char* name : kAssetNames) {
    if (fs::is_regular_file(folder / name)) assets.push_back(folder / name);
  }
  return assets;
}

}  // namespace titan::checkpoint
