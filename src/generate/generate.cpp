#include "generate/generate.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "generate/text_stream.h"

namespace titan::generate {
namespace {

// One prompt on its way.
struct Row {
  size_t index;  // among all prompts
  TextStream stream;
  Result result;
};

class Batch {
 public:
  Batch(Decoder& decoder, const data::Tokenizer& tokenizer, const Options& options,
        const Listener& listener, Timing& timing)
      : decoder_(decoder),
        tokenizer_(tokenizer),
        options_(options),
        listener_(listener),
        timing_(timing) {}

  void run(std::span<const std::vector<int32_t>> prompts, size_t first) {
    for (size_t i = 0; i < prompts.size(); ++i) {
      rows_.push_back({first + i, TextStream(tokenizer_, prompts[i]), {}});
      timing_.prompt_tokens += static_cast<int64_t>(prompts[i].size());
    }
    Stopwatch watch;
    at::Tensor logits = decoder_.prefill(prompts, options_.max_new_tokens);
    timing_.prefill_s += watch.seconds();
    watch.reset();
    while (true) {
      const auto next = choose(logits);
      if (rows_.empty()) break;
      if (options_.stop && options_.stop()) {
        for (auto& row : rows_) finish(row, Finish::kStopped);
        break;
      }
      timing_.step_tokens += static_cast<int64_t>(next.size());
      logits = decoder_.step(next);
    }
    timing_.step_s += watch.seconds();
  }

 private:
  // Chooses a token for each row, takes finished rows out, and returns the tokens of those that go
  // on.
  std::vector<int32_t> choose(const at::Tensor& logits) {
    const auto vocab = static_cast<size_t>(logits.size(1));
    // Rows of the embedding behind the tokenizer's last id stand for no text.
    const auto usable = std::min(vocab, static_cast<size_t>(tokenizer_.vocab_size()));
    std::vector<int32_t> next;
    std::vector<int64_t> going_on;
    std::vector<Row> kept;
    for (size_t i = 0; i < rows_.size(); ++i) {
      Row& row = rows_[i];
      const std::span values(logits.const_data_ptr<float>() + i * vocab, usable);
      const int32_t id = sample(values, options_.sampling, row.index, row.result.ids.size());
      ++timing_.new_tokens;
      if (!accept(row, id)) continue;
      next.push_back(id);
      going_on.push_back(static_cast<int64_t>(i));
      kept.push_back(std::move(row));
    }
    const bool some_left = kept.size() < rows_.size() && !kept.empty();
    rows_ = std::move(kept);
    if (some_left) decoder_.keep_rows(going_on);
    return next;
  }

  // False when the row ends with this token.
  bool accept(Row& row, int32_t id) {
    if (std::find(options_.end_ids.begin(), options_.end_ids.end(), id) != options_.end_ids.end()) {
      finish(row, Finish::kEnd);
      return false;
    }
    row.result.ids.push_back(id);
    tell(row, row.stream.push(id));
    if (static_cast<int64_t>(row.result.ids.size()) < options_.max_new_tokens) return true;
    finish(row, Finish::kLength);
    return false;
  }

  void tell(Row& row, const std::string& piece) {
    if (piece.empty()) return;
    row.result.text += piece;
    if (listener_.on_text) listener_.on_text(row.index, piece);
  }

  void finish(Row& row, Finish why) {
    tell(row, row.stream.finish());
    row.result.finish = why;
    if (listener_.on_finished) listener_.on_finished(row.index, row.result);
  }

  Decoder& decoder_;
  const data::Tokenizer& tokenizer_;
  const Options& options_;
  const Listener& listener_;
  Timing& timing_;
  std::vector<Row> rows_;
};

size_t longest_of(std::span<const std::vector<int32_t>> prompts) {
  size_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
  return longest;
}

std::span<const std::vector<int32_t>> batch_at(std::span<const std::vector<int32_t>> prompts,
                                               size_t begin, int64_t batch_size) {
  return prompts.subspan(begin, std::min(static_cast<size_t>(batch_size), prompts.size() - begin));
}

}  // namespace

const char* to_text(Finish finish) {
  switch (finish) {
    case Finish::kLength:
      return "length";
    case Finish::kEnd:
      return "end";
    case Finish::kStopped:
      return "stopped";
  }
  return "";
}

std::vector<int32_t> encode_prompt(const data::Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids = tokenizer.document_prefix();
  tokenizer.encode(text, ids);
  if (ids.empty()) {
    throw Error(
        "[generate] the prompt is empty and the tokenizer has no BOS that a text could start with "
        "— give a prompt");
  }
  return ids;
}

std::string check(std::span<const std::vector<int32_t>> prompts, int64_t context,
                  const Options& options) {
  check(options.sampling);
  if (options.max_new_tokens < 1) {
    throw Error("[generate] max_new_tokens is {} — it must be at least 1", options.max_new_tokens);
  }
  if (options.batch_size < 1)
    throw Error("[generate] batch_size is {} — it must be at least 1", options.batch_size);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto length = static_cast<int64_t>(prompts[i].size());
    if (length <= context) continue;
    throw Error(
        "[generate] prompt {} has {} tokens (BOS included), the model's context is {} — shorten it "
        "by {}",
        i + 1, length, context, length - context);
  }
  const int64_t longest = static_cast<int64_t>(longest_of(prompts));
  if (options.max_new_tokens <= context - longest) return "";
  return fmt::format(
      "{} prompt tokens and {} new ones are more than the model's context of {}: beyond it the "
      "text may get "
      "worse (max_new_tokens = {} stays inside)",
      longest, options.max_new_tokens, context, std::max<int64_t>(context - longest, 1));
}

int64_t cache_bytes(std::span<const std::vector<int32_t>> prompts, const models::ModelArgs& args,
                    const Options& options, at::ScalarType dtype) {
  int64_t most = 0;
  for (size_t begin = 0; begin < prompts.size(); begin += static_cast<size_t>(options.batch_size)) {
    const auto batch = batch_at(prompts, begin, options.batch_size);
    const int64_t capacity = static_cast<int64_t>(longest_of(batch)) + options.max_new_tokens;
    most = std::max(most, cache_bytes(args, static_cast<int64_t>(batch.size()), capacity, dtype));
  }
  return most;
}

Timing generate(Decoder& decoder, const data::Tokenizer& tokenizer,
                std::span<const std::vector<int32_t>> prompts, const Options& options,
                const Listener& listener) {
  Timing timing;
  for (size_t begin = 0; begin < prompts.size(); begin += static_cast<size_t>(options.batch_size)) {
    if (options.stop && options.stop()) break;
    Batch(decoder, tokenizer, options, listener, timing)
        .run(batch_at(prompts, begin, options.batch_size), begin);
  }
  return timing;
}

}  // namespace titan::generate
