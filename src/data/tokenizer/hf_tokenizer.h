// Hugging Face's tokenizer.json: normaliser, pre-tokeniser, BPE model, post-processor, decoder and
// added tokens, each as the file describes it. Anything in the file that is not built here is
// refused by name, never passed over.
#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizer/json.h"
#include "data/tokenizer/tokenizer.h"

namespace titan::data {

// `file` is a tokenizer.json; `folder`, when not empty, is where tokenizer_config.json,
// special_tokens_map.json, generation_config.json and config.json are looked for, which name BOS
// and EOS.
std::unique_ptr<Tokenizer> load_hf_tokenizer(const JsonFile& file,
                                             const std::filesystem::path& folder);

}  // namespace titan::data
