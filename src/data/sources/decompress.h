// Streaming decompression of gzip (members one after another, as `cat a.gz b.gz` makes) and zstd
// (frames likewise).
#pragma once

#include <memory>
#include <span>
#include <string>

namespace titan::data {

class Decoder {
 public:
  struct Step {
    size_t produced = 0;
    bool ended = false;  // nothing more will come: end of the content, or damage
  };

  virtual ~Decoder() = default;
  // Takes bytes from the front of `input` (shortens it) and writes to `out`. An empty `input` says
  // that the file ends.
  virtual Step decode(std::span<const char>& input, std::span<char> out) = 0;
  // Why the content ended early; empty when it ended as it should.
  virtual const std::string& damage() const = 0;
};

std::unique_ptr<Decoder> make_gzip_decoder();
std::unique_ptr<Decoder> make_zstd_decoder();

}  // namespace titan::data
