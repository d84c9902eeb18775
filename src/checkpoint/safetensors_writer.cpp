#include "checkpoint/safetensors_writer.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "checkpoint/dtype.h"

namespace titan::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kPieceBytes = int64_t{64}
                                << 20;  // of a tensor that must be cast or comes from a device

// Calls `take` with the tensor's bytes as `dtype` in row-major order: all at once when they lie in
// memory like that, else in pieces.
template <class Take>
void for_each_piece(const at::Tensor& tensor, at::ScalarType dtype, const Take& take) {
  const at::Tensor flat = tensor.detach().contiguous().view({-1});
  const auto pass = [&](const at::Tensor& host) {
    take(std::string_view(static_cast<const char*>(host.const_data_ptr()),
                          static_cast<size_t>(host.nbytes())));
  };
  if (flat.device().is_cpu() && flat.scalar_type() == dtype) {
    pass(flat);
    return;
  }
  const int64_t piece = kPieceBytes / static_cast<int64_t>(c10::elementSize(dtype));
  for (int64_t begin = 0; begin < flat.numel(); begin += piece) {
    pass(flat.narrow(0, begin, std::min(piece, flat.numel() - begin)).to(at::kCPU, dtype));
  }
}

std::string header_bytes(std::span<const TensorSource* const> order) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  int64_t offset = 0;
  for (const auto* source : order) {
    const int64_t end = offset + source->bytes();
    header[source->name] = {{"dtype", tag_of_dtype(source->dtype)},
                            {"shape", source->shape},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text;
}

uint64_t write_tensor(const TensorSource& source, files::Writer& file) {
  const at::Tensor tensor = source.make();
  TITAN_CHECK(tensor.sizes() == at::IntArrayRef(source.shape),
              "'{}' was announced as [{}] and came as [{}]", source.name,
              fmt::join(source.shape, ", "), fmt::join(tensor.sizes().vec(), ", "));
  hash::Xxh3 hash;
  for_each_piece(tensor, source.dtype, [&](std::string_view bytes) {
    hash.update(bytes);
    file.write(bytes);
  });
  return hash.digest();
}

void write_one_file(const fs::path& folder, const std::string& name,
                    std::span<const TensorSource> sources, Written& written) {
  std::vector<const TensorSource*> order;
  for (const auto& source : sources) order.push_back(&source);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return c10::elementSize(a->dtype) > c10::elementSize(b->dtype);
  });
  files::Writer file(folder / name);
  const std::string header = header_bytes(order);
  file.write(header);
  auto bytes = static_cast<int64_t>(header.size());
  for (const auto* source : order) {
    const uint64_t xxh3 = write_tensor(*source, file);
    written.tensors.push_back({source->name, name, source->dtype, source->shape, xxh3});
    bytes += source->bytes();
  }
  file.finish();
  written.files.push_back({name, bytes});
}

}  // namespace

int64_t TensorSource::bytes() const {
  int64_t bytes = static_cast<int64_t>(c10::elementSize(dtype));
  for (const int64_t size : shape) bytes *= size;
  return bytes;
}

std::vector<TensorSource> sources_of(std::span<const NamedTensor> tensors,
                                     std::optional<at::ScalarType> cast_to) {
  std::vector<TensorSource> sources;
  sources.reserve(tensors.size());
  for (const auto& [name, tensor, placement] : tensors) {
    TITAN_CHECK(!placement || placement->is_whole(), "a part of {} is no source", name);
    const auto dtype =
        cast_to && at::isFloatingType(tensor.scalar_type()) ? *cast_to : tensor.scalar_type();
    tag_of_dtype(dtype);
    sources.push_back({name, dtype, tensor.sizes().vec(), [tensor = tensor] { return tensor; }});
  }
  return sources;
}

int64_t bytes_needed(std::span<const TensorSource> sources) {
  constexpr int64_t kHeaderBytesPerTensor = 256;
  int64_t bytes = 4096;
  for (const auto& source : sources) {
    bytes += source.bytes() + kHeaderBytesPerTensor + 2 * static_cast<int64_t>(source.name.size());
  }
  return bytes;
}

Written write_safetensors(const fs::path& folder, const std::string& stem,
                          std::span<const TensorSource> sources, int64_t max_file_bytes) {
  std::set<std::string> names;
  std::vector<size_t> begins{0};
  int64_t bytes = 0;
  for (size_t i = 0; i < sources.size(); ++i) {
    TITAN_CHECK(names.insert(sources[i].name).second, "two tensors are named '{}'",
                sources[i].name);
    if (i > begins.back() && bytes + sources[i].bytes() > max_file_bytes) {
      begins.push_back(i);
      bytes = 0;
    }
    bytes += sources[i].bytes();
  }
  Written written;
  const size_t num_files = begins.size();
  begins.push_back(sources.size());
  for (size_t i = 0; i < num_files; ++i) {
    write_one_file(folder, fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i + 1, num_files),
                   sources.subspan(begins[i], begins[i + 1] - begins[i]), written);
  }
  return written;
}

}  // namespace titan::checkpoint
