// Token strings and their ids, both ways. Strings lie in one block; ids may have gaps (size() is
// the largest id + 1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace titan::data {

class Vocabulary {
 public:
  // False (and nothing is added) when the id or the string is taken.
  bool add(std::string_view token, int32_t id);

  std::optional<int32_t> find(std::string_view token) const;
  bool contains(int32_t id) const { return id >= 0 && id < size() && spans_[id].offset >= 0; }
  std::string_view token(int32_t id) const {  // REQUIRES contains(id)
    return std::string_view(block_).substr(spans_[id].offset, spans_[id].length);
  }
  int32_t size() const { return static_cast<int32_t>(spans_.size()); }
  int64_t count() const { return count_; }

 private:
  struct Span {
    int64_t offset = -1;  // -1: no token has this id
    int32_t length = 0;
  };
  size_t slot_of(std::string_view token)
      const;  // the slot that holds the token, or the free one where it would go
  void grow();

  std::string block_;
  std::vector<Span> spans_;     // by id
  std::vector<int32_t> slots_;  // open addressing, -1 is free; a power of two, at most half full
  int64_t count_ = 0;
};

}  // namespace titan::data
