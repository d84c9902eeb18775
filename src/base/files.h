// Files: whole reads, memory maps, and writes that leave either the old content or the new one,
// never a part.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace titan::files {

// Whole content; throws Error with the system's reason ("[files] cannot read …").
std::string read(const std::filesystem::path& path);

// Writes beside the target, flushes to disk and renames over it: after a crash the target is the
// old file or the new.
void write_atomically(const std::filesystem::path& path, std::string_view content);

// Flushes a file or folder to disk (fsync), so that a later rename cannot become visible before its
// content.
void sync_to_disk(const std::filesystem::path& path);

// Free bytes on the file system that holds `path` (its nearest existing parent is asked).
int64_t free_space(const std::filesystem::path& path);

// Writes a new file piece by piece; throws EnvironmentError with the system's reason (disk full,
// quota, I/O error). The file exists from the start and is only a part until finish() returns:
// write into a folder that a later rename commits.
class Writer {
 public:
  explicit Writer(const std::filesystem::path& path);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  void write(std::string_view bytes);
  void finish();  // flushes to disk (fsync) and closes

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

// A read-only map of a file. Movable; unmaps when destroyed.
class Map {
 public:
  Map() = default;
  explicit Map(const std::filesystem::path& path);
  Map(Map&& other) noexcept;
  Map& operator=(Map&& other) noexcept;
  Map(const Map&) = delete;
  Map& operator=(const Map&) = delete;
  ~Map();

  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace titan::files
