// Which tokenizer belongs to a model: the one the user names, the one in the folder, or the one the
// run was trained with.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "data/tokenizer/tokenizer.h"
#include "generate/source.h"

namespace titan::generate {

struct TokenizerChoice {
  std::filesystem::path path;
  std::string reason;  // "given by --tokenizer", …
};

// `given`: --tokenizer, empty without. `state`: of the step, null without. A relative path of the
// run's config is looked for from here and, when it was inside the run folder, from where the run
// folder is now. Throws Error that lists where it was looked for.
TokenizerChoice choose_tokenizer(const std::filesystem::path& given, const Source& source,
                                 const nlohmann::json& state);

// Throws Error with both sizes when the tokenizer has ids that the model has no row for. Returns a
// warning when its ids are not those that the run was trained on, else an empty text.
std::string check_tokenizer(const data::Tokenizer& tokenizer, const TokenizerChoice& choice,
                            int64_t model_vocab_size, const nlohmann::json& state);

}  // namespace titan::generate
