#include "checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/dtype.h"

namespace titan::checkpoint {
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors files are little-endian, read in place");

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference implementation

std::string_view header_of(std::string_view file, const std::string& what) {
  const auto size = static_cast<int64_t>(file.size());
  if (size < kLengthBytes) {
    throw Error("{} is cut off: {} bytes, at least {} are needed", what, size, kLengthBytes);
  }
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  if (length > static_cast<uint64_t>(kMaxHeaderBytes)) {
    throw Error(
        "{} has a header of {} bytes, more than {} — this is no safetensors file or it is damaged",
        what, length, kMaxHeaderBytes);
  }
  if (length > static_cast<uint64_t>(size - kLengthBytes)) {
    throw Error("{} is cut off: the header has {} bytes, the file {} after its length field", what,
                length, size - kLengthBytes);
  }
  const std::string_view header = file.substr(kLengthBytes, length);
  if (header.empty() || header.front() != '{') {
    throw Error(
        "{} has a header that does not start with '{{' — this is no safetensors file or it is "
        "damaged",
        what);
  }
  return header;
}

// Bytes of a tensor of that shape, or an Error when they exceed int64.
int64_t checked_bytes(const StoredTensor& tensor, const std::string& what) {
  int64_t bytes = static_cast<int64_t>(c10::elementSize(tensor.dtype));
  for (const int64_t size : tensor.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) {
      throw Error("{} has the shape [{}], which exceeds 2^63 bytes", what,
                  fmt::join(tensor.shape, ", "));
    }
  }
  return bytes;
}

StoredTensor parse_entry(const nlohmann::json& entry, const std::string& what) {
  StoredTensor tensor;
  const std::string tag = json::string_member(entry, "dtype", what);
  const auto dtype = dtype_of_tag(tag);
  if (!dtype) throw Error("{} has the element type {}, which titan cannot read", what, tag);
  tensor.dtype = *dtype;
  tensor.shape = json::sizes_member(entry, "shape", what);
  const auto offsets = json::sizes_member(entry, "data_offsets", what);
  if (offsets.size() != 2)
    throw Error("{} has {} data offsets, 2 are needed", what, offsets.size());
  if (entry.size() != 3)
    throw Error("{} has {} fields, dtype, shape and data_offsets are needed", what, entry.size());
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  if (tensor.begin > tensor.end) {
    throw Error("{} ends at byte {} before its begin {}", what, tensor.end, tensor.begin);
  }
  if (const int64_t needed = checked_bytes(tensor, what); needed != tensor.end - tensor.begin) {
    throw Error("{} of {} [{}] needs {} bytes, its offsets [{}, {}) hold {}", what, tag,
                fmt::join(tensor.shape, ", "), needed, tensor.begin, tensor.end,
                tensor.end - tensor.begin);
  }
  return tensor;
}

void check_metadata(const nlohmann::json& metadata, const std::string& what) {
  if (!metadata.is_object()) throw Error("{}: __metadata__ is no object", what);
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_string()) throw Error("{}: __metadata__ '{}' is no string", what, key);
  }
}

// The entries must follow each other without overlap or hole, from the first byte of the data to
// the last.
void check_coverage(const std::map<std::string, StoredTensor>& tensors, int64_t data_bytes,
                    int64_t data_begin, const std::string& what) {
  std::vector<const std::pair<const std::string, StoredTensor>*> order;
  for (const auto& entry : tensors) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  int64_t covered = 0;
  std::string previous = "the start of the data";
  for (const auto* entry : order) {
    const auto& [name, tensor] = *entry;
    if (tensor.end > data_bytes) {
      throw Error("{} is cut off: tensor '{}' ends at byte {}, the data has {} bytes", what, name,
                  tensor.end, data_bytes);
    }
    if (tensor.begin < covered) {
      throw Error("{}: tensor '{}' at byte {} overlaps {}, which ends at byte {}", what, name,
                  tensor.begin, previous, covered);
    }
    if (tensor.begin > covered) {
      throw Error("{} has a hole of {} bytes before tensor '{}' at byte {}", what,
                  tensor.begin - covered, name, tensor.begin);
    }
    const auto alignment = static_cast<int64_t>(c10::elementSize(tensor.dtype));
    if ((data_begin + tensor.begin) % alignment != 0) {
      throw Error(
          "{}: tensor '{}' is misaligned: byte {} of the file is no multiple of {}, its element "
          "size — write the "
          "file anew with a current safetensors package",
          what, name, data_begin + tensor.begin, alignment);
    }
    covered = tensor.end;
    previous = fmt::format("'{}'", name);
  }
  if (covered != data_bytes) {
    throw Error("{} has {} bytes after its last tensor, which no tensor covers", what,
                data_bytes - covered);
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(fs::path path)
    : path_(std::move(path)), map_(std::make_shared<files::Map>(path_)) {
  const std::string what = fmt::format("[checkpoint] {}", path_.string());
  const std::string_view header = header_of(map_->bytes(), what);
  data_begin_ = kLengthBytes + static_cast<int64_t>(header.size());
  const auto root = json::parse_strict(header, what + ": the header", 4);
  for (const auto& [name, entry] : root.items()) {
    if (name == "__metadata__") {
      check_metadata(entry, what);
    } else {
      tensors_.emplace(name, parse_entry(entry, fmt::format("{}: tensor '{}'", what, name)));
    }
  }
  check_coverage(tensors_, size_bytes() - data_begin_, data_begin_, what);
}

std::string_view SafetensorsFile::bytes(const std::string& name) const {
  const auto found = tensors_.find(name);
  TITAN_CHECK(found != tensors_.end(), "no tensor '{}' in {}", name, path_.string());
  const StoredTensor& tensor = found->second;
  return map_->bytes().substr(static_cast<size_t>(data_begin_ + tensor.begin),
                              static_cast<size_t>(tensor.end - tensor.begin));
}

at::Tensor SafetensorsFile::view(const std::string& name) const {
  const std::string_view data = bytes(name);
  const StoredTensor& tensor = tensors_.at(name);
  const auto options = at::TensorOptions().dtype(tensor.dtype).device(at::kCPU);
  if (data.empty()) return at::empty(tensor.shape, options);
  // from_blob takes a mutable pointer; the map is read-only, so a write would fault rather than
  // change the file.
  return at::from_blob(
      const_cast<char*>(data.data()), tensor.shape, [map = map_](void*) {}, options);
}

}  // namespace titan::checkpoint
