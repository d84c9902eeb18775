#include "data/tokenizer/added_tokens.h"

#include <algorithm>

#include "data/tokenizer/unicode.h"

namespace titan::data {
namespace {

constexpr uint32_t kWord =
    unicode::kLetter | unicode::kMark |
    unicode::mask(unicode::Category::kNd, unicode::Category::kNl, unicode::Category::kPc);

bool is_word(char32_t code) {
  // \w of the regex crate: Alphabetic, marks, decimal numbers, connectors, join controls.
  return unicode::table().is(code, kWord) || code == 0x200C || code == 0x200D ||
         (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
         (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
}

bool word_before(std::string_view text, size_t at) {
  return at > 0 && is_word(unicode::previous(text.data() + at));
}

bool word_after(std::string_view text, size_t at) {
  const char* p = text.data() + at;
  return at < text.size() && is_word(unicode::next(p));
}

size_t spaces_begin(std::string_view text, size_t at, size_t least) {
  while (at > least) {
    size_t start = at - 1;
    while ((static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    if (!unicode::table().is(unicode::previous(text.data() + at), unicode::kSpace)) break;
    at = start;
  }
  return at;
}

size_t spaces_end(std::string_view text, size_t at) {
  while (at < text.size()) {
    const char* p = text.data() + at;
    if (!unicode::table().is(unicode::next(p), unicode::kSpace)) break;
    at = static_cast<size_t>(p - text.data());
  }
  return at;
}

}  // namespace

int32_t TokenMatcher::child(int32_t node, unsigned char byte) const {
  for (int32_t at = nodes_[node].first_child; at >= 0; at = nodes_[at].next_sibling) {
    if (nodes_[at].byte == byte) return at;
  }
  return -1;
}

void TokenMatcher::add(AddedToken token) {
  if (token.content.empty()) return;
  int32_t node = 0;
  for (const char c : token.content) {
    const auto byte = static_cast<unsigned char>(c);
    int32_t next = child(node, byte);
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_.push_back({-1, -1, nodes_[node].first_child, byte});
      nodes_[node].first_child = next;
    }
    node = next;
  }
  starts_[static_cast<unsigned char>(token.content[0])] = true;
  nodes_[node].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(std::move(token));
}

bool TokenMatcher::next_match(std::string_view text, size_t from, Match& match) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_[static_cast<unsigned char>(text[begin])]) continue;
    int32_t node = 0, found = -1;
    size_t end = begin;
    for (size_t at = begin; at < text.size(); ++at) {
      node = child(node, static_cast<unsigned char>(text[at]));
      if (node < 0) break;
      if (nodes_[node].token >= 0) {
        found = nodes_[node].token;
        end = at + 1;
      }
    }
    if (found < 0) continue;
    match = {begin, end, &tokens_[found]};
    return true;
  }
  return false;
}

void TokenMatcher::split(std::string_view text, std::vector<Segment>& segments) const {
  size_t done = 0, from = 0;
  const auto text_until = [&](size_t end) {
    if (end > done) segments.push_back({text.substr(done, end - done), -1});
  };
  Match match{};
  while (!tokens_.empty() && next_match(text, from, match)) {
    from = match.end;
    const AddedToken& token = *match.token;
    if (token.single_word && (word_before(text, match.begin) || word_after(text, match.end)))
      continue;
    if (token.lstrip) match.begin = spaces_begin(text, match.begin, done);
    if (token.rstrip) match.end = spaces_end(text, match.end);
    text_until(match.begin);
    segments.push_back({text.substr(match.begin, match.end - match.begin), token.id});
    done = match.end;
    from = std::max(from, done);
  }
  text_until(text.size());
}

}  // namespace titan::data
