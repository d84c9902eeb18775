#include "data/sources/byte_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "data/sources/decompress.h"

namespace titan::data {
namespace {

class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path) : path_(path) {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) {
      throw Error("[data] cannot open {}: {} — check training.dataset_path", path.string(),
                  std::strerror(errno));
    }
  }
  ~InputFile() { ::close(fd_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  size_t read(int64_t offset, std::span<char> out) const {
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t got =
          ::pread(fd_, out.data() + done, out.size() - done, offset + static_cast<int64_t>(done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        throw EnvironmentError("[data] cannot read {} at byte {}: {}", path_.string(), offset,
                               std::strerror(errno));
      }
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

class PlainBytes : public ByteStream {
 public:
  explicit PlainBytes(const std::filesystem::path& path) : file_(path) {}
  size_t read(int64_t offset, std::span<char> out) override { return file_.read(offset, out); }
  const std::string& damage() const override { return damage_; }

 private:
  InputFile file_;
  std::string damage_;
};

// A decompressor that moves forward only; an earlier offset begins again.
class CompressedBytes : public ByteStream {
 public:
  CompressedBytes(const std::filesystem::path& path, Compression compression)
      : file_(path), compression_(compression), input_(1 << 18) {
    restart();
  }

  size_t read(int64_t offset, std::span<char> out) override {
    if (offset < position_) restart();
    char skipped[1 << 14];
    while (position_ < offset) {
      const auto n = static_cast<size_t>(std::min<int64_t>(offset - position_, sizeof skipped));
      if (produce({skipped, n}) < n) return 0;
    }
    return produce(out);
  }
  const std::string& damage() const override { return damage_; }

 private:
  void restart() {
    decoder_ = compression_ == Compression::kGzip ? make_gzip_decoder() : make_zstd_decoder();
    available_ = {};
    file_offset_ = 0;
    position_ = 0;
    ended_ = false;
  }

  size_t produce(std::span<char> out) {
    size_t done = 0;
    while (done < out.size() && !ended_) {
      if (available_.empty()) {
        const size_t got = file_.read(file_offset_, input_);
        file_offset_ += static_cast<int64_t>(got);
        available_ = std::span<const char>(input_).first(got);
      }
      const Decoder::Step step = decoder_->decode(available_, out.subspan(done));
      done += step.produced;
      ended_ = step.ended;
      if (ended_) damage_ = decoder_->damage();
    }
    position_ += static_cast<int64_t>(done);
    return done;
  }

  InputFile file_;
  Compression compression_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<char> input_;
  std::span<const char> available_;
  int64_t file_offset_ = 0;
  int64_t position_ = 0;
  bool ended_ = false;
  std::string damage_;
};

}  // namespace

std::unique_ptr<ByteStream> open_bytes(const std::filesystem::path& path, Compression compression) {
  if (compression == Compression::kNone) return std::make_unique<PlainBytes>(path);
  return std::make_unique<CompressedBytes>(path, compression);
}

}  // namespace titan::data
