#include "data/tokenizer/unicode.h"

#include <map>

#include "base/error.h"

namespace titan::data::unicode {
namespace {

constexpr uint32_t kRuns[] = {
#include "data/tokenizer/unicode_table.inc"
};

}  // namespace

Table::Table() {
  std::vector<Category> flat;
  flat.reserve(0x110000);
  for (const uint32_t run : kRuns)
    flat.insert(flat.end(), run >> 5, static_cast<Category>(run & 31));
  TITAN_CHECK(flat.size() == 0x110000, "the category table covers {} code points", flat.size());
  for (const int code : {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x85}) flat[code] = Category::kCcSpace;
  std::map<std::string_view, uint32_t> known;
  for (size_t page = 0; page < 0x1100; ++page) {
    const std::string_view content(reinterpret_cast<const char*>(flat.data() + page * 256), 256);
    const auto [found, is_new] = known.emplace(content, static_cast<uint32_t>(pages_.size()));
    if (is_new)
      pages_.insert(pages_.end(), flat.begin() + page * 256, flat.begin() + (page + 1) * 256);
    page_of_.push_back(found->second);
  }
}

const Table& table() {
  static const Table instance;
  return instance;
}

void append(std::string& text, char32_t code) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 63));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 63));
    put(0x80 | (code & 63));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 63));
    put(0x80 | (code >> 6 & 63));
    put(0x80 | (code & 63));
  }
}

std::u32string decode(std::string_view text) {
  std::u32string codes;
  codes.reserve(text.size());
  for (const char* p = text.data(); p < text.data() + text.size();) codes.push_back(next(p));
  return codes;
}

std::string encode(std::u32string_view codes) {
  std::string text;
  text.reserve(codes.size());
  for (const char32_t code : codes) append(text, code);
  return text;
}

}  // namespace titan::data::unicode
