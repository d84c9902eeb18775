#include "generate/text_stream.h"

#include "base/text.h"

namespace titan::generate {
namespace {

constexpr size_t kContextTokens = 8;

void keep_last(std::vector<int32_t>& ids, size_t count) {
  if (ids.size() > count) ids.erase(ids.begin(), ids.end() - static_cast<int64_t>(count));
}

}  // namespace

TextStream::TextStream(const data::Tokenizer& tokenizer, const std::vector<int32_t>& before)
    : tokenizer_(&tokenizer), context_(before) {
  keep_last(context_, kContextTokens);
}

std::string TextStream::push(int32_t id) {
  pending_.push_back(id);
  std::string bytes;
  std::vector<size_t> ends;
  for (const int32_t token : pending_) {
    bytes += tokenizer_->token_bytes(token);
    ends.push_back(bytes.size());
  }
  // A character may end at `end` when its bytes are whole there or the next byte cannot go on with
  // it.
  const auto may_cut = [&](size_t end) {
    const auto head = std::string_view(bytes).substr(0, end);
    return text::complete_utf8_prefix(head) == end ||
           (end < bytes.size() && (static_cast<unsigned char>(bytes[end]) & 0xC0) != 0x80);
  };
  size_t count = pending_.size();
  while (count > 0 && !may_cut(ends[count - 1])) --count;
  return count > 0 ? emit(count) : std::string();
}

std::string TextStream::finish() {
  return pending_.empty() ? std::string() : emit(pending_.size());
}

std::string TextStream::emit(size_t count) {
  const std::string before = tokenizer_->decode(context_);
  std::vector<int32_t> ids = context_;
  ids.insert(ids.end(), pending_.begin(), pending_.begin() + static_cast<int64_t>(count));
  const std::string after = tokenizer_->decode(ids);
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<int64_t>(count));
  context_ = ids;
  keep_last(context_, kContextTokens);
  if (after.starts_with(before)) return after.substr(before.size());
  // Ill-formed bytes can make some decoders write the context in another way; it is on the screen
  // already.
  return tokenizer_->decode(std::span(ids).last(count));
}

}  // namespace titan::generate
