// Unicode for tokenizers: the general category of every code point in one fixed version (16.0, the
// version of the reference packages), so that token ids do not depend on which libraries a
// distribution ships.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace titan::data::unicode {

// The order is the one of unicode_table.inc.
enum class Category : uint8_t {
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCo,
  kCs,
  kCn,
  kCcSpace,  // the control characters that are white space (U+0009–U+000D, U+0085)
};

// A set of categories as a bit mask.
constexpr uint32_t mask(Category category) { return 1u << static_cast<int>(category); }
template <class... C>
constexpr uint32_t mask(Category first, C... rest) {
  return mask(first) | mask(rest...);
}

constexpr uint32_t kLetter =
    mask(Category::kLu, Category::kLl, Category::kLt, Category::kLm, Category::kLo);
constexpr uint32_t kMark = mask(Category::kMn, Category::kMc, Category::kMe);
constexpr uint32_t kNumber = mask(Category::kNd, Category::kNl, Category::kNo);
constexpr uint32_t kPunctuation = mask(Category::kPc, Category::kPd, Category::kPs, Category::kPe,
                                       Category::kPi, Category::kPf, Category::kPo);
constexpr uint32_t kSymbol = mask(Category::kSm, Category::kSc, Category::kSk, Category::kSo);
// White_Space: the same set as the regex class \s.
constexpr uint32_t kSpace = mask(Category::kZs, Category::kZl, Category::kZp, Category::kCcSpace);

// Category of each code point; a constant, built once.
class Table {
 public:
  Table();
  Category category(char32_t code) const {
    return code < 0x110000 ? pages_[page_of_[code >> 8] + (code & 255)] : Category::kCn;
  }
  bool is(char32_t code, uint32_t categories) const {
    return (categories >> static_cast<int>(category(code))) & 1u;
  }

 private:
  std::vector<uint32_t> page_of_;  // [0x1100] offset of a page of 256 in pages_
  std::vector<Category> pages_;
};
const Table& table();

// Decodes the code point at `p` (REQUIRES well-formed UTF-8, p < end) and moves p past it.
inline char32_t next(const char*& p) {
  const auto byte = [&](int i) { return static_cast<char32_t>(static_cast<unsigned char>(p[i])); };
  const char32_t first = byte(0);
  char32_t code = first;
  int length = 1;
  if (first >= 0xF0) {
    code = (first & 7) << 18 | (byte(1) & 63) << 12 | (byte(2) & 63) << 6 | (byte(3) & 63);
    length = 4;
  } else if (first >= 0xE0) {
    code = (first & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63);
    length = 3;
  } else if (first >= 0xC0) {
    code = (first & 31) << 6 | (byte(1) & 63);
    length = 2;
  }
  p += length;
  return code;
}

// Decodes the code point that ends at `p` (REQUIRES begin < p) without moving.
inline char32_t previous(const char* p) {
  const char* start = p - 1;
  while ((static_cast<unsigned char>(*start) & 0xC0) == 0x80) --start;
  return next(start);
}

void append(std::string& text, char32_t code);
std::u32string decode(std::string_view text);  // REQUIRES well-formed UTF-8
std::string encode(std::u32string_view codes);

// Length in bytes of the character that starts with `first`.
inline int length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace titan::data::unicode
