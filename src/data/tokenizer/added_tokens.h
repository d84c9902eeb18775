// Added tokens of a tokenizer.json: strings that are cut out of the text before anything else
// splits it. Those with "normalized": false are looked for in the raw text, the others in the
// normalised text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace titan::data {

struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool special = false, single_word = false, lstrip = false, rstrip = false, normalized = false;
};

// A part of the text: a token when id >= 0, else text that still has to be split.
struct Segment {
  std::string_view text;
  int32_t id = -1;
};

// Finds the longest token at the leftmost place, again and again.
class TokenMatcher {
 public:
  void add(AddedToken token);  // of equal contents the last one counts
  bool empty() const { return tokens_.empty(); }
  // Appends the segments of `text` (none empty, but tokens may be). Views into `text`.
  void split(std::string_view text, std::vector<Segment>& segments) const;

 private:
  struct Match {
    size_t begin, end;
    const AddedToken* token;
  };
  bool next_match(std::string_view text, size_t from, Match& match) const;

  std::vector<AddedToken> tokens_;
  // A trie over bytes: children of a node are a linked list.
  struct Node {
    int32_t token = -1, first_child = -1, next_sibling = -1;
    unsigned char byte = 0;
  };
  int32_t child(int32_t node, unsigned char byte) const;
  std::vector<Node> nodes_ = std::vector<Node>(1);  // the root
  bool starts_[256] = {};
};

}  // namespace titan::data
