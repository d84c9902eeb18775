// The "normalizer" of a tokenizer.json: what is done to the text before it is split.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/tokenizer/json.h"

namespace titan::data {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void normalize(
      std::string& text) const = 0;  // REQUIRES well-formed UTF-8, and keeps it so
};

// Throws Error for a type that is not built here, by name.
std::unique_ptr<Normalizer> read_normalizer(const Json& json);

// Normalisation forms in the (older) Unicode version of the reference package; exposed for tests.
enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
std::string normal_form(std::string_view text, NormalForm form);

}  // namespace titan::data
