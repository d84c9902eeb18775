#include "checkpoint/index.h"

#include <charconv>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "checkpoint/dtype.h"

namespace titan::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFormat = "titan-checkpoint";

uint64_t checksum_member(const nlohmann::json& object, const std::string& what) {
  const std::string text = json::string_member(object, "xxh3", what);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 16) {
    throw Error("{}: 'xxh3' is \"{}\", 16 hexadecimal digits are needed", what, text);
  }
  return value;
}

IndexedTensor parse_tensor(const nlohmann::json& entry, const std::string& what) {
  IndexedTensor tensor;
  tensor.file = json::string_member(entry, "file", what);
  if (tensor.file.empty() || tensor.file.find('/') != std::string::npos) {
    throw Error("{}: 'file' is \"{}\", a name inside the step folder is needed", what, tensor.file);
  }
  const std::string tag = json::string_member(entry, "dtype", what);
  const auto dtype = dtype_of_tag(tag);
  if (!dtype) throw Error("{}: unknown element type {}", what, tag);
  tensor.dtype = *dtype;
  tensor.shape = json::sizes_member(entry, "shape", what);
  tensor.xxh3 = checksum_member(entry, what);
  return tensor;
}

void check_header(nlohmann::json& root, const std::string& what) {
  if (json::string_member(root, "format", what) != kFormat)
    throw Error("{} is of another format than {}", what, kFormat);
  if (const int64_t version = json::size_member(root, "version", what); version > kFormatVersion) {
    throw Error("{} has format version {}, this titan reads up to {} — use a newer titan", what,
                version, kFormatVersion);
  }
  const uint64_t stored = checksum_member(root, what);
  root.erase("xxh3");
  if (const uint64_t computed = hash::xxh3(root.dump()); computed != stored) {
    throw Error("{} is damaged: its content has the checksum {}, {} is stored", what,
                hash::hex(computed), hash::hex(stored));
  }
}

}  // namespace

int64_t IndexedTensor::numel() const {
  int64_t numel = 1;
  for (const int64_t size : shape) numel *= size;
  return numel;
}

int64_t IndexedTensor::bytes() const {
  return numel() * static_cast<int64_t>(c10::elementSize(dtype));
}

bool Index::has_optimizer() const {
  for (const auto& [name, tensor] : tensors) {
    if (part_of(name) == Part::kOptimizer) return true;
  }
  return false;
}

void add(Index& index, const Written& written) {
  for (const auto& file : written.files) index.files[file.name] = file.bytes;
  for (const auto& tensor : written.tensors) {
    const bool added =
        index.tensors.insert({tensor.name, {tensor.file, tensor.dtype, tensor.shape, tensor.xxh3}})
            .second;
    TITAN_CHECK(added, "two tensors are named '{}'", tensor.name);
  }
}

std::string to_text(const Index& index) {
  nlohmann::json root = {{"format", kFormat},    {"version", kFormatVersion},
                         {"step", index.step},   {"files", index.files},
                         {"state", index.state}, {"tensors", nlohmann::json::object()}};
  for (const auto& [name, tensor] : index.tensors) {
    root["tensors"][name] = {{"file", tensor.file},
                             {"dtype", tag_of_dtype(tensor.dtype)},
                             {"shape", tensor.shape},
                             {"xxh3", hash::hex(tensor.xxh3)}};
  }
  root["xxh3"] = hash::hex(hash::xxh3(root.dump()));
  return root.dump(1) + "\n";
}

Index read_index(const fs::path& step_folder) {
  const fs::path path = step_folder / kIndexFile;
  const std::string what = fmt::format("[checkpoint] {}", path.string());
  auto root = json::parse_strict(files::read(path), what);
  check_header(root, what);
  Index index;
  index.step = json::size_member(root, "step", what);
  index.state = json::member(root, "state", what);
  for (const auto& [name, bytes] : json::member(root, "files", what).items()) {
    index.files[name] = json::size_member(root["files"], name.c_str(), what + ": files");
  }
  for (const auto& [name, entry] : json::member(root, "tensors", what).items()) {
    index.tensors[name] = parse_tensor(entry, fmt::format("{}: tensor '{}'", what, name));
  }
  return index;
}

}  // namespace titan::checkpoint
