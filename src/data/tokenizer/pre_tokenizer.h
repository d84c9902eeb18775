// The "pre_tokenizer" of a tokenizer.json: how normalised text is cut into the pieces that BPE
// works on.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/json.h"
#include "data/tokenizer/scanner.h"

namespace titan::data {

// Pieces of a text. Views into the text or into `owned`, which keeps pieces that have been changed.
struct PieceList {
  struct Piece {
    std::string_view text;
    bool at_start = false;  // begins where the whole text begins
  };
  std::vector<Piece> pieces;
  std::deque<std::string> owned;

  std::string_view keep(std::string text) { return owned.emplace_back(std::move(text)); }
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(PieceList& list) const = 0;  // pieces stay in order; none becomes empty
};

// What a pre_tokenizer comes to. With `scanner` alone each text goes through it directly (the fast
// way, equal to the stages); otherwise through the stages in order.
struct PreTokenization {
  std::vector<std::unique_ptr<PreTokenizer>> stages;
  std::unique_ptr<Scanner> scanner;
  bool to_bytes = false;  // the last stage was ByteLevel: the model takes the pieces' raw bytes
};

// Throws Error for a type that is not built here, by name.
PreTokenization read_pre_tokenizer(const Json& json);

// Lets the pieces be spelled in the byte alphabet instead of handed over as raw bytes: for the rare
// model whose options (byte_fallback, prefix, suffix) work on characters although the pre-tokeniser
// ends with ByteLevel.
void spell_bytes(PreTokenization& pre);

}  // namespace titan::data
