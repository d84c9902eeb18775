#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "generate/small_models.h"
#include "generate/text_stream.h"

namespace titan::generate {
namespace {

using testing::ElementsAre;

// Tokens of more than a byte, cut anywhere in characters; the first token of a text loses a leading
// space.
class PieceTokenizer : public ByteTokenizer {
 public:
  std::vector<std::string> pieces;
  std::string token_bytes(int32_t id) const override { return pieces.at(static_cast<size_t>(id)); }
  std::string decode(std::span<const int32_t> ids) const override {
    std::string bytes;
    for (const int32_t id : ids) bytes += token_bytes(id);
    if (bytes.starts_with(' ')) bytes.erase(0, 1);
    return text::to_valid_utf8(bytes);
  }
};

std::vector<std::string> stream_all(const data::Tokenizer& tokenizer,
                                    const std::vector<int32_t>& before,
                                    const std::vector<int32_t>& ids) {
  TextStream stream(tokenizer, before);
  std::vector<std::string> pieces;
  for (const int32_t id : ids) pieces.push_back(stream.push(id));
  pieces.push_back(stream.finish());
  return pieces;
}

TEST(TextStream, HoldsACharacterUntilItIsWhole) {
  const ByteTokenizer tokenizer;
  EXPECT_THAT(stream_all(tokenizer, {256}, {'a', 0xE4, 0xBD, 0xA0, 0xC3, 0xA9, 'b'}),
              ElementsAre("a", "", "", "\xE4\xBD\xA0", "", "\xC3\xA9", "b", ""));
  EXPECT_THAT(stream_all(tokenizer, {256}, {0xF0, 0x9F, 0x98, 0x80}),
              ElementsAre("", "", "", "\xF0\x9F\x98\x80", ""));
}

TEST(TextStream, WritesUnfinishedAndIllFormedBytesAsReplacement) {
  const ByteTokenizer tokenizer;
  EXPECT_THAT(stream_all(tokenizer, {256}, {'a', 0xE4, 0xBD}),
              ElementsAre("a", "", "", "\xEF\xBF\xBD"));
  EXPECT_THAT(stream_all(tokenizer, {256}, {0xE4, 0xE4, 'x', 0x80}),
              ElementsAre("", "\xEF\xBF\xBD", "\xEF\xBF\xBDx", "\xEF\xBF\xBD", ""));
}

TEST(TextStream, CutsTokensThatStraddleCharacters) {
  PieceTokenizer tokenizer;
  tokenizer.pieces = {"x\xE4", "\xBD\xA0\xE4", "\xBD", "\xA0 y", " z"};
  EXPECT_THAT(stream_all(tokenizer, {4}, {0, 1, 2, 3}),
              ElementsAre("", "", "", "x\xE4\xBD\xA0\xE4\xBD\xA0 y", ""));
}

TEST(TextStream, KeepsTheSpaceThatATextWouldLoseAtItsStart) {
  PieceTokenizer tokenizer;
  tokenizer.pieces = {" a", "b"};
  EXPECT_THAT(stream_all(tokenizer, {0}, {0, 1, 0}), ElementsAre(" a", "b", " a", ""));
  EXPECT_THAT(stream_all(tokenizer, {}, {0, 1, 0}), ElementsAre("a", "b", " a", ""));
}

TEST(TextStream, GivesWhatDecodingAtOnceGives) {
  const ByteTokenizer tokenizer;
  uint32_t state = 1;
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> ids;
    for (int i = 0; i < 60; ++i) {
      state = state * 1664525 + 1013904223;
      // Mostly bytes that start or go on with characters.
      const auto byte = static_cast<int32_t>(state >> 24);
      ids.push_back(byte % 5 == 0 ? byte % 128 : 128 + byte % 128);
    }
    std::string streamed;
    for (const auto& piece : stream_all(tokenizer, {256}, ids)) {
      EXPECT_TRUE(text::is_valid_utf8(piece));
      streamed += piece;
    }
    ASSERT_EQ(streamed, tokenizer.decode(ids)) << round;
  }
}

}  // namespace
}  // namespace titan::generate
