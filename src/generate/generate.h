// The generation loop: prompts in, tokens and text out, batch by batch. Read generate() first;
// decoder.h runs the model, sampling.h chooses the tokens, text_stream.h turns them into text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "generate/decoder.h"
#include "generate/sampling.h"

namespace titan::generate {

struct Options {
  int64_t max_new_tokens = 0;  // per prompt
  int64_t batch_size = 8;      // prompts that run together
  SamplingOptions sampling;
  std::vector<int32_t>
      end_ids;  // a prompt's text ends before one of these; empty: at max_new_tokens only
  std::function<bool()> stop;  // asked before every token; true ends the generation. May be empty
};

enum class Finish { kLength, kEnd, kStopped };
const char* to_text(Finish finish);  // "length", "end", "stopped"

struct Result {
  std::vector<int32_t> ids;  // new tokens, without the one that ended the text
  std::string text;          // of those
  Finish finish = Finish::kStopped;
};

// What happens to prompt `row` (its index among all prompts).
struct Listener {
  std::function<void(size_t row, std::string_view piece)> on_text;  // whole UTF-8 characters
  std::function<void(size_t row, const Result& result)> on_finished;
};

struct Timing {
  int64_t prompt_tokens = 0;  // read by the prefill, padding not counted
  int64_t new_tokens = 0;     // chosen from a prefill's or a step's logits, end tokens included
  int64_t step_tokens = 0;    // of those, the ones that a step was computed for
  double prefill_s = 0, step_s = 0;
};

// Ids of a prompt: what the tokenizer puts in front of a document in training, then the text's.
// Throws Error for a prompt that gives no id at all: an empty text and a tokenizer without BOS.
std::vector<int32_t> encode_prompt(const data::Tokenizer& tokenizer, std::string_view text);

// Throws Error with the numbers for a prompt longer than `context` tokens, and for options that
// make no sense. Returns a warning when prompt and new tokens together exceed the context, else an
// empty text: positions beyond it are computed, but the model has not been trained on them.
std::string check(std::span<const std::vector<int32_t>> prompts, int64_t context,
                  const Options& options);

// Bytes of the cache of the largest batch.
int64_t cache_bytes(std::span<const std::vector<int32_t>> prompts, const models::ModelArgs& args,
                    const Options& options, at::ScalarType dtype);

// Prompts that were not begun when `stop` said so are not finished either: the listener hears
// nothing of them.
Timing generate(Decoder& decoder, const data::Tokenizer& tokenizer,
                std::span<const std::vector<int32_t>> prompts, const Options& options,
                const Listener& listener);

}  // namespace titan::generate
