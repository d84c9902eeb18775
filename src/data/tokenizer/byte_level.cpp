#include "data/tokenizer/byte_level.h"

#include "data/tokenizer/unicode.h"

namespace titan::data::byte_level {
namespace {

constexpr int kLargest = 0x143;  // the largest character of the alphabet

bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::array<int, kLargest + 1> make_inverse() {
  std::array<int, kLargest + 1> inverse;
  inverse.fill(-1);
  for (int byte = 0; byte < 256; ++byte) inverse[characters()[byte]] = byte;
  return inverse;
}

}  // namespace

const std::array<char32_t, 256>& characters() {
  static const std::array<char32_t, 256> table = [] {
    std::array<char32_t, 256> made{};
    char32_t free = 256;
    for (int byte = 0; byte < 256; ++byte) made[byte] = stands_for_itself(byte) ? byte : free++;
    return made;
  }();
  return table;
}

std::optional<unsigned char> byte_of(char32_t character) {
  static const auto inverse = make_inverse();
  if (character > kLargest || inverse[character] < 0) return std::nullopt;
  return static_cast<unsigned char>(inverse[character]);
}

std::string to_text(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes)
    unicode::append(text, characters()[static_cast<unsigned char>(byte)]);
  return text;
}

std::optional<std::string> to_bytes(std::string_view text) {
  std::string bytes;
  for (const char* p = text.data(); p < text.data() + text.size();) {
    const auto byte = byte_of(unicode::next(p));
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
  }
  return bytes;
}

}  // namespace titan::data::byte_level
