// What rank files do not say: the regex and the special tokens of the vocabularies that come as
// such files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "data/tokenizer/json.h"

namespace titan::data {

struct KnownRanks {
  std::string name;  // "Llama 3"
  std::string pattern;
  std::map<int32_t, std::string> specials;  // by id
  std::optional<int32_t> bos, eos;
};

// By the number of ranks. Throws Error naming `file` and the known numbers for another one.
KnownRanks known_ranks(int64_t num_ranks, const std::string& file);

// Special tokens of a tekken.json: those of its list (`json`, absent in old files) and fillers up
// to `count`.
std::map<int32_t, std::string> tekken_specials(const std::optional<Json>& json, int64_t count);

}  // namespace titan::data
