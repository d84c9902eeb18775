#include "data/tokenizer/hf_model.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "base/error.h"
#include "data/tokenizer/byte_level.h"

namespace titan::data {
namespace {

constexpr int32_t kMostTokens = 1 << 28;

void read_vocabulary(const Json& vocab, Vocabulary& tokens) {
  if (!vocab.is_object()) vocab.fail("an object of token: id is needed");
  const JsonReader& reader = vocab.reader();
  reader.for_each_member(vocab.index(), [&](std::string_view token, uint32_t index) {
    const std::string_view digits = reader.node(index).text;
    int32_t id = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
    if (reader.node(index).type != JsonReader::Type::kNumber || error != std::errc() ||
        end != digits.data() + digits.size() || id < 0 || id >= kMostTokens) {
      vocab.fail(
          fmt::format("the id of token \"{}\" is no integer from 0 to {}", token, kMostTokens - 1));
    }
    if (tokens.add(token, id)) return;
    if (tokens.find(token)) vocab.fail(fmt::format("token \"{}\" occurs twice", token));
    vocab.fail(
        fmt::format("id {} belongs to two tokens: \"{}\" and \"{}\"", id, tokens.token(id), token));
  });
  if (tokens.count() == 0) vocab.fail("the vocabulary is empty");
}

// A merge is ["a", "b"] or, in older files, "a b".
std::pair<std::string_view, std::string_view> split_merge(
    const JsonReader& reader, uint32_t index, const std::function<void(const std::string&)>& fail) {
  const auto& node = reader.node(index);
  if (node.type == JsonReader::Type::kString) {
    const size_t space = node.text.find(' ');
    if (space == std::string_view::npos ||
        node.text.find(' ', space + 1) != std::string_view::npos) {
      fail(fmt::format("\"{}\" is no merge: two tokens with one blank between them are needed",
                       node.text));
    }
    return {node.text.substr(0, space), node.text.substr(space + 1)};
  }
  const bool is_pair = node.type == JsonReader::Type::kArray && node.next == index + 3 &&
                       reader.node(index + 1).type == JsonReader::Type::kString &&
                       reader.node(index + 2).type == JsonReader::Type::kString;
  if (!is_pair) fail("a merge must be a string or an array of 2 strings");
  return {reader.node(index + 1).text, reader.node(index + 2).text};
}

std::vector<PairTable::Entry> read_merges(const Json& merges, const Vocabulary& tokens,
                                          std::string_view continuing_prefix) {
  if (!merges.is_array()) merges.fail("an array of merges is needed");
  std::vector<PairTable::Entry> entries;
  std::string joined;
  const auto fail = [&](const std::string& problem) {
    merges.fail(fmt::format("[{}]: {}", entries.size(), problem));
  };
  const auto id_of = [&](std::string_view token) {
    const auto id = tokens.find(token);
    if (!id) fail(fmt::format("token \"{}\" is not in model.vocab", token));
    return *id;
  };
  merges.reader().for_each_item(merges.index(), [&](uint32_t index) {
    const auto [left, right] = split_merge(merges.reader(), index, fail);
    joined.assign(left);
    // The second part drops as many bytes as the prefix has, whatever they are: that is how the
    // reference joins.
    joined.append(right.substr(std::min(continuing_prefix.size(), right.size())));
    entries.push_back(
        {id_of(left), id_of(right), static_cast<int32_t>(entries.size()), id_of(joined)});
  });
  return entries;
}

}  // namespace

std::unique_ptr<HfModel> read_hf_model(const Json& model, Bpe::Alphabet alphabet) {
  const std::string_view type = model.string_or("type", "BPE");
  if (type != "BPE") {
    model.fail(fmt::format(
        "a {} model is not supported — titan reads BPE models (for Unigram give the SentencePiece "
        ".model file)",
        type));
  }
  if (const auto dropout = model.find("dropout")) {
    const double rate = dropout->number();
    if (rate != 0)
      dropout->fail(
          fmt::format("{} — dropout makes ids random and is not supported, set it to null", rate));
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
      if (const auto bytes = byte_level::to_bytes(result->tokens.token(id)))
        result->bytes->add(*bytes, id);
    }
    spelled = result->bytes.get();
  }
  result->bpe = std::make_unique<Bpe>(*spelled, std::move(pairs), std::move(options));
  return result;
}

}  // namespace titan::data
