// What the files beside a tokenizer.json say about BOS and EOS, and what its post-processor adds
// around a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/json.h"

namespace titan::data {

struct BosEos {
  std::optional<int32_t> bos, eos;
  std::string bos_source,
      eos_source;  // "tokenizer_config.json: bos_token"; why not, when there is none
};

// Looks in tokenizer_config.json, special_tokens_map.json (bos_token, eos_token: a name), then
// generation_config.json and config.json (bos_token_id, eos_token_id: an id, or a list whose first
// one counts). The first file that says something decides, for BOS and EOS each. Throws Error when
// a named token is not in the vocabulary.
using TokenFinder = std::function<std::optional<int32_t>(std::string_view name)>;
BosEos find_bos_eos(const std::filesystem::path& folder, const TokenFinder& id_of);

// The ids that the post-processor puts around one text. Throws Error for a type that is not built
// here, by name.
struct Surrounding {
  std::vector<int32_t> before, after;
};
Surrounding read_post_processor(const Json& json);

}  // namespace titan::data
