// Reading JSON: a parser whose result is one flat list of values in the order of the text. It is
// strict where it matters (a truncated or malformed text is refused with its place) and, like
// Python's json, takes NaN and Infinity and lets the last of equal keys win. Not simdjson, because
// pyarrow's libparquet.so exports another version of it: in one process the symbols of the two get
// mixed and crash.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace titan::data {

class JsonReader {
 public:
  enum class Type : uint8_t { kNull, kTrue, kFalse, kNumber, kString, kArray, kObject };

  // A value. The values inside an array follow it; inside an object keys (strings) and values take
  // turns.
  struct Node {
    Type type;
    uint32_t next;          // index behind this value and all that is in it
    std::string_view text;  // of a string, unescaped; of a number, as it stands
  };

  struct Problem {
    std::string what;
    size_t offset;  // in the source, in bytes
  };

  // `source` must be well-formed UTF-8, at most 4 GiB, and outlive the result. Earlier results end.
  // A lone surrogate escape becomes U+FFFD and is counted. nullopt when all is well: the root is
  // node 0.
  std::optional<Problem> parse(std::string_view source);

  const Node& node(uint32_t index) const { return nodes_[index]; }
  int64_t mended_escapes() const { return mended_escapes_; }

  // Index of the value of the last member `key` of the object at `object`; nullopt when there is
  // none.
  std::optional<uint32_t> member(uint32_t object, std::string_view key) const;

  // Calls use(index) for each item of an array, or use(key, index) for each member of an object, in
  // order.
  template <class F>
  void for_each_item(uint32_t array, F use) const {
    for (uint32_t at = array + 1; at < nodes_[array].next; at = nodes_[at].next) use(at);
  }
  template <class F>
  void for_each_member(uint32_t object, F use) const {
    for (uint32_t at = object + 1; at < nodes_[object].next; at = nodes_[at + 1].next)
      use(nodes_[at].text, at + 1);
  }

 private:
  bool value(int depth);
  bool container(int depth, bool is_object);
  bool string();
  bool escape();
  bool number();
  bool word(std::string_view spelled, Type type);
  int code_unit(const char* at) const;  // of "\uXXXX" at `at`; -1: none
  bool fail(const char* what);
  void skip_blanks();

  const char* p_ = nullptr;
  const char* begin_ = nullptr;
  const char* end_ = nullptr;
  std::vector<Node> nodes_;
  std::string unescaped_;  // strings with escapes; never reallocated during a parse
  const char* what_ = nullptr;
  int64_t mended_escapes_ = 0;
};

}  // namespace titan::data
