// Tokenizers given as ranks: byte strings in the order in which they were formed, of which the id
// is the rank. tiktoken files (lines of base64 and rank: Llama 3 and 4, Qwen, OpenAI) and Mistral's
// tekken.json.
#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizer/json.h"
#include "data/tokenizer/tokenizer.h"

namespace titan::data {

// The file does not name its regex and special tokens: both follow from the number of ranks, for
// the known vocabularies (docs/tokenizers.md lists them). Throws Error that names file and line.
std::unique_ptr<Tokenizer> load_tiktoken(const std::filesystem::path& file);

std::unique_ptr<Tokenizer> load_tekken(const JsonFile& file);

}  // namespace titan::data
