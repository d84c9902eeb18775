// Places where parts of the reference package follow another Unicode version than 16.0. Each
// function answers as that package does; tests/tokenizers/parity.py compares them on every code
// point.
#pragma once

#include <cstdint>

namespace titan::data::quirks {

// StripAccents: marks of about Unicode 9.
bool is_mark(char32_t code);
// NFC, NFD, NFKC, NFKD: characters that came later, which those tables treat as unassigned.
bool is_unknown_to_normal_forms(char32_t code);
// Punctuation: categories of Unicode 8 (and all ASCII punctuation).
bool is_punctuation(char32_t code);
// Digits: numbers of Unicode 17.
bool is_number(char32_t code);
// Lowercase of one character (Unicode 17), except U+0130.
char32_t lower(char32_t code);

}  // namespace titan::data::quirks
