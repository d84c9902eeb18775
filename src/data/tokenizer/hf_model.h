// The "model" part of a tokenizer.json: a BPE vocabulary with its merges.
#pragma once

#include <memory>

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/json.h"
#include "data/tokenizer/vocabulary.h"

namespace titan::data {

struct HfModel {
  Vocabulary tokens;                  // as the file spells them
  std::unique_ptr<Vocabulary> bytes;  // with the byte alphabet undone; only for Alphabet::kBytes
  std::unique_ptr<Bpe> bpe;
};

// `alphabet` is kBytes when the pre-tokeniser ends with ByteLevel. Throws Error for another kind of
// model, merges that name unknown tokens, an id or token that occurs twice, or an empty vocabulary.
std::unique_ptr<HfModel> read_hf_model(const Json& model, Bpe::Alphabet alphabet);

}  // namespace titan::data
