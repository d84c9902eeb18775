// SentencePiece .model files, read by the SentencePiece library itself.
#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizer/tokenizer.h"

namespace titan::data {

std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& file);

}  // namespace titan::data
