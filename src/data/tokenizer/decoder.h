// The "decoder" of a tokenizer.json: from the tokens' strings back to text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizer/json.h"

namespace titan::data {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Changes the strings, which are then joined. May leave fewer of them. A stage may leave
  // ill-formed UTF-8 only in the one string that it joins all others to.
  virtual void decode(std::vector<std::string>& tokens) const = 0;
};

// Throws Error for a type that is not built here, by name.
std::unique_ptr<Decoder> read_decoder(const Json& json);

}  // namespace titan::data
