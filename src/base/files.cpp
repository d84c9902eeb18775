#include "base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace titan::files {
namespace fs = std::filesystem;
namespace {

// An open file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Descriptor open_for_reading(const fs::path& path) {
  if (fs::is_directory(path))
    throw Error("[files] {} is a folder, a file is needed", path.string());
  return Descriptor(path, O_RDONLY);
}

void check_open(const Descriptor& file, const fs::path& path, const char* doing) {
  if (file.get() < 0)
    throw Error("[files] cannot {} {}: {}", doing, path.string(), std::strerror(errno));
}

}  // namespace

std::string read(const fs::path& path) {
  const Descriptor file = open_for_reading(path);
  check_open(file, path, "read");
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error("[files] cannot read {}: {}", path.string(), std::strerror(errno));
    if (got == 0) return content;
    content.append(buffer, static_cast<size_t>(got));
  }
}

void write_atomically(const fs::path& path, std::string_view content) {
  fs::path partial = path;
  partial += ".partial";
  {
    const Descriptor file(partial, O_WRONLY | O_CREAT | O_TRUNC);
    check_open(file, partial, "write");
    while (!content.empty()) {
      const ssize_t put = ::write(file.get(), content.data(), content.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        const int reason = errno;
        ::unlink(partial.c_str());
        throw EnvironmentError("[files] cannot write {}: {}", path.string(), std::strerror(reason));
      }
      content.remove_prefix(static_cast<size_t>(put));
    }
    if (::fsync(file.get()) != 0) {
      throw EnvironmentError("[files] cannot flush {}: {}", path.string(), std::strerror(errno));
    }
  }
  if (::rename(partial.c_str(), path.c_str()) != 0) {
    throw EnvironmentError("[files] cannot rename {} to {}: {}", partial.string(), path.string(),
                           std::strerror(errno));
  }
}

void sync_to_disk(const fs::path& path) {
  const Descriptor file(path, O_RDONLY);
  check_open(file, path, "open");
  if (::fsync(file.get()) != 0) {
    throw EnvironmentError("[files] cannot flush {}: {}", path.string(), std::strerror(errno));
  }
}

int64_t free_space(const fs::path& path) {
  fs::path existing = fs::absolute(path);
  while (!fs::exists(existing) && existing.has_parent_path() &&
         existing != existing.parent_path()) {
    existing = existing.parent_path();
  }
  return static_cast<int64_t>(fs::space(existing).available);
}

Writer::Writer(const fs::path& path)
    : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (fd_ < 0)
    throw EnvironmentError("[files] cannot write {}: {}", path.string(), std::strerror(errno));
}

Writer::~Writer() {
  if (fd_ >= 0) ::close(fd_);
}

void Writer::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0)
      throw EnvironmentError("[files] cannot write {}: {}", path_.string(), std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(put));
  }
}

void Writer::finish() {
  const bool flushed = ::fsync(fd_) == 0;
  const int reason = errno;
  const bool closed = ::close(std::exchange(fd_, -1)) == 0;
  if (!flushed || !closed) {
    throw EnvironmentError("[files] cannot flush {}: {}", path_.string(),
                           std::strerror(flushed ? errno : reason));
  }
}

Map::Map(const fs::path& path) {
  const Descriptor file = open_for_reading(path);
  check_open(file, path, "read");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    throw Error("[files] cannot read {}: {}", path.string(), std::strerror(errno));
  }
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;
  data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data_ == MAP_FAILED) {
    data_ = nullptr;
    throw Error("[files] cannot map {}: {}", path.string(), std::strerror(errno));
  }
}

Map::Map(Map&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Map& Map::operator=(Map&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Map::~Map() {
  if (data_) ::munmap(data_, size_);
}

}  // namespace titan::files
