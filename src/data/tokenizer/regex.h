// Regexes of tokenizer files, run by PCRE2's JIT. The pattern is first rewritten so that it means
// what it means to the engine of the reference package: every character class becomes explicit
// ranges of one Unicode version (16.0), and the few differences of syntax (nested classes, $, {n}+,
// \h) are spelled out.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/tokenizer/code_set.h"

namespace titan::data {

// The pattern in PCRE2's syntax. Throws Error naming the pattern and the place for what is not
// understood.
std::string rewrite_regex(std::string_view pattern, RegexDialect dialect);

class Regex {
 public:
  Regex(std::string_view pattern, RegexDialect dialect);
  ~Regex();
  Regex(Regex&&) noexcept;

  struct Match {
    size_t begin, end;
  };

  // One scan over a text (well-formed UTF-8, kept by the caller): successive matches without
  // overlap.
  class Scan {
   public:
    Scan(const Regex& regex, std::string_view text);
    ~Scan();
    Scan(const Scan&) = delete;
    Scan& operator=(const Scan&) = delete;
    // The first match at or after `from` (a character boundary); nullopt when there is none.
    std::optional<Match> find(size_t from);

    struct State;

   private:
    const Regex& regex_;
    std::string_view text_;
    std::unique_ptr<State> state_;
  };

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace titan::data
