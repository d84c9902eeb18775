#include "data/tokenizer/hf_model.h"

#include <limits>

#include "base/error.h"
#include "data/tokenizer/byte_level.h"

namespace titan::data {
namespace {

void read_vocabulary(const Json& vocab, Vocabulary& tokens) {
  simdjson::dom::object object;
  if (vocab.element().get(object)) vocab.fail("an object of token: id is needed");
  for (const auto field : object) {
    int64_t id;
    if (field.value.get(id) || id < 0 || id >= std::numeric_limits<int32_t>::max()) {
      vocab.fail(fmt::format("the id of token \"{}\" is no integer from 0 to 2^31 - 2", field.key));
    }
    if (tokens.add(field.key, static_cast<int32_t>(id))) continue;
    if (tokens.find(field.key)) vocab.fail(fmt::format("token \"{}\" occurs twice", field.key));
    vocab.fail(fmt::format("id {} belongs to two tokens: \"{}\" and \"{}\"", id,
                           tokens.token(static_cast<int32_t>(id)), field.key));
  }
  if (tokens.count() == 0) vocab.fail("the vocabulary is empty");
}

// A merge is ["a", "b"] or, in older files, "a b".
std::pair<std::string_view, std::string_view> split_merge(const Json& merge) {
  if (merge.is_string()) {
    const std::string_view text = merge.string();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      merge.fail(fmt::format("\"{}\" is no merge: two tokens with one blank between them are needed", text));
    }
    return {text.substr(0, space), text.substr(space + 1)};
  }
  const auto parts = merge.items();
  if (parts.size() != 2) merge.fail(fmt::format("a merge has 2 tokens, this one has {}", parts.size()));
  return {parts[0].string(), parts[1].string()};
}

std::vector<PairTable::Entry> read_merges(const Json& merges, const Vocabulary& tokens,
                                          std::string_view continuing_prefix) {
  std::vector<PairTable::Entry> entries;
  std::string joined;
  const auto id_of = [&](const Json& merge, std::string_view token) {
    const auto id = tokens.find(token);
    if (!id) merge.fail(fmt::format("token \"{}\" is not in model.vocab", token));
    return *id;
  };
  for (const Json& merge : merges.items()) {
    const auto [left, right] = split_merge(merge);
    joined.assign(left);
    // The part after the first one drops its prefix, whatever it is: that is how the reference joins.
    joined.append(right.substr(std::min(continuing_prefix.size(), right.size())));
    entries.push_back({id_of(merge, left), id_of(merge, right), static_cast<int32_t>(entries.size()),
                       id_of(merge, joined)});
  }
  return entries;
}

}  // namespace

std::unique_ptr<HfModel> read_hf_model(const Json& model, Bpe::Alphabet alphabet) {
  const std::string_view type = model.string_or("type", "BPE");
  if (type != "BPE") {
    model.fail(fmt::format("a {} model is not supported — titan reads BPE models (for Unigram give the SentencePiece "
                           ".model file)", type));
  }
  if (const auto dropout = model.find("dropout")) {
    double rate;
    if (dropout->element().get(rate)) dropout->fail("a number or null is needed");
    if (rate != 0) dropout->fail(fmt::format("{} — dropout makes ids random and is not supported, set it to null", rate));
  }
  auto result = std::make_unique<HfModel>();
  read_vocabulary(model.at("vocab"), result->tokens);
  Bpe::Options options;
  options.alphabet = alphabet;
  options.ignore_merges = model.boolean_or("ignore_merges", false);
  options.byte_fallback = model.boolean_or("byte_fallback", false);
  options.fuse_unk = model.boolean_or("fuse_unk", false);
  options.continuing_prefix = model.string_or("continuing_subword_prefix", "");
  options.end_suffix = model.string_or("end_of_word_suffix", "");
  if (const auto unk = model.find("unk_token")) {
    options.unk = result->tokens.find(unk->string());
    if (!options.unk) unk->fail(fmt::format("\"{}\" is not in model.vocab", unk->string()));
  }
  PairTable pairs(read_merges(model.at("merges"), result->tokens, options.continuing_prefix));
  const Vocabulary* spelled = &result->tokens;
  if (alphabet == Bpe::Alphabet::kBytes) {
    result->bytes = std::make_unique<Vocabulary>();
    for (int32_t id = 0; id < result->tokens.size(); ++id) {
      if (!result->tokens.contains(id)) continue;
      if (const auto bytes = byte_level::to_bytes(result->tokens.token(id))) result->bytes->add(*bytes, id);
    }
    spelled = result->bytes.get();
  }
  result->bpe = std::make_unique<Bpe>(*spelled, std::move(pairs), std::move(options));
  return result;
}

}  // namespace titan::data
