// Hashes: XXH3 for checksums and names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace titan::hash {

// XXH3, 64 bits. The value is stored in checkpoints: never change the algorithm or its seed.
uint64_t xxh3(std::string_view bytes);
std::string hex(uint64_t value);  // 16 lower-case digits

// Streaming form of xxh3().
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;
  void update(std::string_view bytes);
  uint64_t digest() const;

 private:
  void* state_;
};

}  // namespace titan::hash
