#include "data/sources/decompress.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>

#include "base/error.h"

namespace titan::data {
namespace {

class GzipDecoder : public Decoder {
 public:
  GzipDecoder() {
    // 15 window bits, +32: gzip or zlib header, told apart by zlib.
    if (inflateInit2(&stream_, 15 + 32) != Z_OK)
      throw EnvironmentError("[data] zlib cannot start: no memory");
  }
  ~GzipDecoder() override { inflateEnd(&stream_); }
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  Step decode(std::span<const char>& input, std::span<char> out) override {
    if (between_members_) {
      // Zero bytes after the last member are padding (tape blocks), as gzip itself takes them.
      while (!input.empty() && input.front() == 0) input = input.subspan(1);
      if (input.empty()) return {.produced = 0, .ended = true};
      inflateReset(&stream_);
      between_members_ = false;
    }
    if (input.empty()) return fail("the file ends inside the gzip stream");
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    stream_.avail_in = static_cast<uInt>(input.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min<size_t>(out.size(), 1u << 30));
    const uInt asked = stream_.avail_out;
    const int status = inflate(&stream_, Z_NO_FLUSH);
    input = input.subspan(input.size() - stream_.avail_in);
    const size_t produced = asked - stream_.avail_out;
    if (status == Z_STREAM_END) {
      between_members_ = true;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      fail(stream_.msg ? stream_.msg : "damaged gzip stream");
      return {.produced = produced, .ended = true};
    }
    return {.produced = produced, .ended = false};
  }
  const std::string& damage() const override { return damage_; }

 private:
  Step fail(std::string why) {
    damage_ = std::move(why);
    return {.produced = 0, .ended = true};
  }

  z_stream stream_{};
  bool between_members_ = false;
  std::string damage_;
};

class ZstdDecoder : public Decoder {
 public:
  ZstdDecoder() : stream_(ZSTD_createDStream(), &ZSTD_freeDStream) {
    if (!stream_) throw EnvironmentError("[data] zstd cannot start: no memory");
    // Frames made with --long need a window of up to 2 GiB; zstd's default refuses those over 128
    // MiB.
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, 31);
  }

  Step decode(std::span<const char>& input, std::span<char> out) override {
    if (input.empty() && between_frames_) return {.produced = 0, .ended = true};
    ZSTD_inBuffer in{input.data(), input.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const size_t status = ZSTD_decompressStream(stream_.get(), &to, &in);
    const bool at_end = input.empty();
    input = input.subspan(in.pos);
    if (ZSTD_isError(status)) {
      damage_ = ZSTD_getErrorName(status);
      return {.produced = to.pos, .ended = true};
    }
    between_frames_ = status == 0;
    if (at_end && to.pos == 0 && !between_frames_) {
      damage_ = "the file ends inside the zstd stream";
      return {.produced = 0, .ended = true};
    }
    return {.produced = to.pos, .ended = false};
  }
  const std::string& damage() const override { return damage_; }

 private:
  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream_;
  bool between_frames_ = true;
  std::string damage_;
};

}  // namespace

std::unique_ptr<Decoder> make_gzip_decoder() { return std::make_unique<GzipDecoder>(); }
std::unique_ptr<Decoder> make_zstd_decoder() { return std::make_unique<ZstdDecoder>(); }

}  // namespace titan::data
