#include "data/json_reader.h"

#include <cstring>

namespace titan::data {
namespace {

constexpr int kDeepest = 512;

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 63));
    }
    put(0x80 | (code >> 6 & 63));
  }
  put(0x80 | (code & 63));
}

// The first quote, backslash or control character at or after p.
const char* string_special(const char* p, const char* end) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHighs = 0x8080808080808080;
  const auto zero_bytes = [](uint64_t v) { return (v - kOnes) & ~v & kHighs; };
  for (; end - p >= 8; p += 8) {
    uint64_t v;
    std::memcpy(&v, p, 8);
    const uint64_t below_blank = (v - kOnes * 0x20) & ~v & kHighs;
    if (below_blank | zero_bytes(v ^ (kOnes * '"')) | zero_bytes(v ^ (kOnes * '\\'))) break;
  }
  while (p < end && *p != '"' && *p != '\\' && static_cast<unsigned char>(*p) >= 0x20) ++p;
  return p;
}

}  // namespace

bool JsonReader::fail(const char* what) {
  if (!what_) what_ = what;
  return false;
}

void JsonReader::skip_blanks() {
  while (p_ < end_ && (*p_ == ' ' || *p_ == '\n' || *p_ == '\r' || *p_ == '\t')) ++p_;
}

std::optional<JsonReader::Problem> JsonReader::parse(std::string_view source) {
  begin_ = p_ = source.data();
  end_ = p_ + source.size();
  nodes_.clear();
  unescaped_.clear();
  what_ = nullptr;
  mended_escapes_ = 0;
  skip_blanks();
  if (p_ == end_) fail("there is nothing");
  if (!what_ && value(0)) {
    skip_blanks();
    if (p_ < end_) fail("something follows the value");
  }
  if (!what_) return std::nullopt;
  return Problem{what_, static_cast<size_t>(p_ - begin_)};
}

bool JsonReader::value(int depth) {
  skip_blanks();
  if (p_ == end_) return fail("the text ends early");
  switch (*p_) {
    case '{':
      return container(depth, true);
    case '[':
      return container(depth, false);
    case '"':
      return string();
    case 't':
      return word("true", Type::kTrue);
    case 'f':
      return word("false", Type::kFalse);
    case 'n':
      return word("null", Type::kNull);
    case 'N':
      return word("NaN", Type::kNumber);
    case 'I':
      return word("Infinity", Type::kNumber);
    default:
      return number();
  }
}

bool JsonReader::container(int depth, bool is_object) {
  if (depth == kDeepest) return fail("nested too deeply");
  const auto index = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({is_object ? Type::kObject : Type::kArray, 0, {}});
  const char close = is_object ? '}' : ']';
  ++p_;
  skip_blanks();
  if (p_ < end_ && *p_ == close) {
    ++p_;
    nodes_[index].next = index + 1;
    return true;
  }
  while (true) {
    if (is_object) {
      skip_blanks();
      if (p_ == end_) return fail("the text ends early");
      if (*p_ != '"') return fail("a key in quotes is needed");
      if (!string()) return false;
      skip_blanks();
      if (p_ == end_) return fail("the text ends early");
      if (*p_ != ':') return fail("a colon is needed");
      ++p_;
    }
    if (!value(depth + 1)) return false;
    skip_blanks();
    if (p_ == end_) return fail("the text ends early");
    if (*p_ == close) break;
    if (*p_ != ',') return fail(is_object ? "a comma or } is needed" : "a comma or ] is needed");
    ++p_;
  }
  ++p_;
  nodes_[index].next = static_cast<uint32_t>(nodes_.size());
  return true;
}

bool JsonReader::word(std::string_view spelled, Type type) {
  if (std::string_view(p_, static_cast<size_t>(end_ - p_)).substr(0, spelled.size()) != spelled) {
    return fail("no JSON value");
  }
  nodes_.push_back({type, static_cast<uint32_t>(nodes_.size()) + 1, {p_, spelled.size()}});
  p_ += spelled.size();
  return true;
}

bool JsonReader::number() {
  const char* start = p_;
  const auto digits = [&] {
    const char* first = p_;
    while (p_ < end_ && *p_ >= '0' && *p_ <= '9') ++p_;
    return p_ > first;
  };
  if (*p_ == '-') ++p_;
  if (p_ < end_ && *p_ == 'I') {
    p_ = start + 1;
    return word("Infinity", Type::kNumber);
  }
  if (!digits()) return fail("no JSON value");
  if (p_ < end_ && *p_ == '.') {
    ++p_;
    if (!digits()) return fail("a digit is needed");
  }
  if (p_ < end_ && (*p_ == 'e' || *p_ == 'E')) {
    ++p_;
    if (p_ < end_ && (*p_ == '+' || *p_ == '-')) ++p_;
    if (!digits()) return fail("a digit is needed");
  }
  nodes_.push_back({Type::kNumber,
                    static_cast<uint32_t>(nodes_.size()) + 1,
                    {start, static_cast<size_t>(p_ - start)}});
  return true;
}

bool JsonReader::string() {
  ++p_;
  const char* start = p_;
  const auto add = [&](std::string_view text) {
    nodes_.push_back({Type::kString, static_cast<uint32_t>(nodes_.size()) + 1, text});
    ++p_;
    return true;
  };
  p_ = string_special(p_, end_);
  if (p_ < end_ && *p_ == '"') return add({start, static_cast<size_t>(p_ - start)});
  // With escapes: no string gets longer by unescaping, so the room for the whole source is enough
  // for all of them.
  if (unescaped_.capacity() < static_cast<size_t>(end_ - begin_)) {
    if (!unescaped_.empty()) return fail("out of room for escapes");
    unescaped_.reserve(static_cast<size_t>(end_ - begin_));
  }
  const size_t first = unescaped_.size();
  while (true) {
    unescaped_.append(start, p_);
    if (p_ == end_) return fail("the text ends inside a string");
    if (*p_ == '"') return add({unescaped_.data() + first, unescaped_.size() - first});
    if (*p_ != '\\') return fail("a control character inside a string");
    if (!escape()) return false;
    start = p_;
    p_ = string_special(p_, end_);
  }
}

int JsonReader::code_unit(const char* at) const {
  if (end_ - at < 6 || at[0] != '\\' || at[1] != 'u') return -1;
  int unit = 0;
  for (int i = 2; i < 6; ++i) {
    const char c = at[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

bool JsonReader::escape() {
  if (end_ - p_ < 2) return fail("the text ends inside a string");
  if (p_[1] == 'u') {
    const int unit = code_unit(p_);
    if (unit < 0) return fail("\\u needs four hexadecimal digits");
    p_ += 6;
    if (unit < 0xD800 || unit > 0xDFFF) {
      append_utf8(unescaped_, static_cast<uint32_t>(unit));
      return true;
    }
    const int low = unit < 0xDC00 ? code_unit(p_) : -1;
    if (low >= 0xDC00 && low <= 0xDFFF) {
      append_utf8(unescaped_, 0x10000u + (static_cast<uint32_t>(unit - 0xD800) << 10) +
                                  static_cast<uint32_t>(low - 0xDC00));
      p_ += 6;
    } else {
      append_utf8(unescaped_, 0xFFFD);
      ++mended_escapes_;
    }
    return true;
  }
  constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
  const size_t which = kNames.find(p_[1]);
  if (which == std::string_view::npos) return fail("an escape that JSON does not have");
  unescaped_.push_back(kValues[which]);
  p_ += 2;
  return true;
}

std::optional<uint32_t> JsonReader::member(uint32_t object, std::string_view key) const {
  std::optional<uint32_t> found;
  for_each_member(object, [&](std::string_view name, uint32_t index) {
    if (name == key) found = index;
  });
  return found;
}

}  // namespace titan::data
