#include "data/sources/file_format.h"

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/text.h"
#include "data/sources/byte_stream.h"

namespace titan::data {
namespace fs = std::filesystem;
namespace {

struct Extension {
  const char* suffix;
  Format format;
};
constexpr Extension kExtensions[] = {
    {".txt", Format::kText},         {".text", Format::kText},
    {".jsonl", Format::kJsonLines},  {".json", Format::kJsonLines},
    {".ndjson", Format::kJsonLines}, {".parquet", Format::kParquet},
    {".arrow", Format::kArrowFile},  {".feather", Format::kArrowFile},
    {".ipc", Format::kArrowFile},
};

std::string first_bytes(const fs::path& path, size_t count) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("[data] cannot open {} — check that the file is readable", path.string());
  std::string bytes(count, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(count));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

std::string last_bytes(const fs::path& path, int64_t size, size_t count) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("[data] cannot open {} — check that the file is readable", path.string());
  std::string bytes(count, '\0');
  file.seekg(std::max<int64_t>(0, size - static_cast<int64_t>(count)));
  file.read(bytes.data(), static_cast<std::streamsize>(count));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

}  // namespace

std::optional<DataFile> format_by_extension(const fs::path& path) {
  DataFile file;
  file.path = path;
  file.name = path.filename().string();
  std::string name = text::lower_ascii(file.name);
  if (name.ends_with(".gz")) file.compression = Compression::kGzip;
  if (name.ends_with(".zst")) file.compression = Compression::kZstd;
  if (file.compression != Compression::kNone) name.resize(name.rfind('.'));
  for (const auto& extension : kExtensions) {
    if (!name.ends_with(extension.suffix)) continue;
    file.format = extension.format;
    const bool columnar = file.format != Format::kText && file.format != Format::kJsonLines;
    if (columnar && file.compression != Compression::kNone) return std::nullopt;
    return file;
  }
  return std::nullopt;
}

DataFile format_by_content(const fs::path& path) {
  DataFile file;
  file.path = path;
  file.name = path.filename().string();
  std::string begin = first_bytes(path, 4096);
  if (begin.starts_with("\x1f\x8b")) file.compression = Compression::kGzip;
  if (begin.starts_with("\x28\xb5\x2f\xfd")) file.compression = Compression::kZstd;
  if (file.compression != Compression::kNone) {
    begin.resize(4096);
    begin.resize(open_bytes(path, file.compression)->read(0, begin));
    if (text::trim(begin).starts_with('{')) file.format = Format::kJsonLines;
    return file;
  }
  if (begin.starts_with("PAR1")) file.format = Format::kParquet;
  if (begin.starts_with("ARROW1") || begin.starts_with("\xff\xff\xff\xff"))
    file.format = Format::kArrowFile;
  if (text::trim(begin).starts_with('{')) file.format = Format::kJsonLines;
  return file;
}

void settle_format(DataFile& file) {
  std::error_code error;
  file.bytes = static_cast<int64_t>(fs::file_size(file.path, error));
  if (error)
    throw Error("[data] cannot read {}: {} — check the file", file.path.string(), error.message());
  if (file.bytes == 0) {  // of any kind: counted as an empty file
    file.format = Format::kText;
    file.compression = Compression::kNone;
  }
  if (file.format == Format::kArrowFile && first_bytes(file.path, 6) != "ARROW1")
    file.format = Format::kArrowStream;
  // These two keep their index at the end: cut short, nothing of them can be read.
  const std::string_view mark = file.format == Format::kParquet     ? "PAR1"
                                : file.format == Format::kArrowFile ? "ARROW1"
                                                                    : "";
  if (!mark.empty() && last_bytes(file.path, file.bytes, mark.size()) != mark) {
    throw Error(
        "[data] {} ({} bytes) is cut short or no {} file: it does not end with {} — get it again, "
        "or remove it",
        file.path.string(), file.bytes, file.format == Format::kParquet ? "Parquet" : "Arrow IPC",
        mark);
  }
}

}  // namespace titan::data
