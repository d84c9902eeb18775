// The Split family of pre-tokenisers: a text is cut at the matches of something, and the matches
// are kept, dropped or joined with their neighbours.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "data/tokenizer/code_set.h"
#include "data/tokenizer/pre_tokenizer.h"

namespace titan::data {

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// A stretch of text, and whether it is a match. The stretches of a text cover it in order.
struct Stretch {
  size_t begin, end;
  bool match;
};

// Finds the stretches of a text.
using StretchFinder = std::function<void(std::string_view text, std::vector<Stretch>& stretches)>;

std::unique_ptr<PreTokenizer> make_split(StretchFinder finder, SplitBehavior behavior, bool invert);

// Finders: matches of a regex, of a fixed string, of single characters.
StretchFinder regex_finder(std::string_view pattern,
                           RegexDialect dialect = RegexDialect::kOniguruma);
StretchFinder string_finder(std::string_view pattern);
StretchFinder character_finder(std::function<bool(char32_t)> matches);

}  // namespace titan::data
