// Splitting text into the pieces that BPE works on, for the regexes of well-known tokenizers
// written out by hand: the same pieces as the regex gives (a test compares them), many times as
// fast. Other regexes go through regex.h.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace titan::data {

class Scanner {
 public:
  virtual ~Scanner() = default;
  // Fills `pieces` with the next pieces of `text` (well-formed UTF-8) from `position` on, which
  // moves to the end of the last one; returns how many, 0 at the end. The pieces cover the text
  // without gaps.
  virtual size_t scan(std::string_view text, size_t& position,
                      std::span<std::string_view> pieces) const = 0;
};

// The regexes as tokenizer files spell them.
extern const char* const kGpt2Pattern;
extern const char* const kLlama3Pattern;
extern const char* const kQwen2Pattern;
extern const char* const kO200kPattern;
extern const char* const kTekkenPattern;

extern const char* const
    kDeepSeekPatterns[3];  // one after the other, each on the pieces of the one before

// The hand-written scanner of a regex, or of several that split one after the other; null when
// there is none.
std::unique_ptr<Scanner> known_scanner(std::string_view regex);
std::unique_ptr<Scanner> known_scanner(std::span<const std::string> regexes);

}  // namespace titan::data
