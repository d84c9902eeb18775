// Bytes of a file, decompressed where it is .gz or .zst, at any offset of the decompressed content.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "data/sources/source.h"

namespace titan::data {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Reads up to out.size() bytes at `offset`; fewer only at the end of the content. Reading where
  // the last read ended is cheap; an earlier offset of a compressed file decompresses from its
  // start again.
  virtual size_t read(int64_t offset, std::span<char> out) = 0;
  // Why the content ended before the file's own end mark; empty when it did not (known once the end
  // was read).
  virtual const std::string& damage() const = 0;
};

std::unique_ptr<ByteStream> open_bytes(const std::filesystem::path& path, Compression compression);

}  // namespace titan::data
