// Tokens in, text out, a piece at a time: a piece ends where the bytes of a character do, and the
// pieces together are what decoding all tokens at once gives. A few earlier tokens are decoded
// along, because some tokenizers write a token differently at the start of a text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace titan::generate {

class TextStream {
 public:
  // `before`: the tokens that the new ones follow. `tokenizer` must outlive the stream.
  TextStream(const data::Tokenizer& tokenizer, const std::vector<int32_t>& before);

  // The text that this token completes; empty while a character is unfinished.
  std::string push(int32_t id);
  // What is left at the end, unfinished bytes as U+FFFD.
  std::string finish();

 private:
  std::string emit(size_t count);

  const data::Tokenizer* tokenizer_;
  std::vector<int32_t> context_;  // already written
  std::vector<int32_t> pending_;  // not yet
};

}  // namespace titan::generate
