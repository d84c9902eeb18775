#include "data/tokenizer/rank_tokenizer.h"

#include <array>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "data/tokenizer/base64.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/json.h"
#include "data/tokenizer/known_ranks.h"
#include "data/tokenizer/scanner.h"
#include "data/tokenizer/split.h"

namespace titan::data {
namespace fs = std::filesystem;
namespace {

// What the two kinds of file come to.
struct RankFile {
  std::string file, kind;
  Vocabulary tokens;                        // bytes and ids
  std::map<int32_t, std::string> specials;  // never formed from text
  std::string pattern;
  std::optional<int32_t> bos, eos;
};

// Every way to put a token together from two others, ranked by the id of the result.
std::vector<PairTable::Entry> all_pairs(const Vocabulary& tokens) {
  std::vector<PairTable::Entry> entries;
  for (int32_t id = 0; id < tokens.size(); ++id) {
    if (!tokens.contains(id)) continue;
    const std::string_view token = tokens.token(id);
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = tokens.find(token.substr(0, cut));
      const auto right = left ? tokens.find(token.substr(cut)) : std::nullopt;
      if (right) entries.push_back({*left, *right, id, id});
    }
  }
  return entries;
}

Bpe make_bpe(const Vocabulary& tokens) {
  Bpe::Options options;
  options.ignore_merges = true;
  return Bpe(tokens, PairTable(all_pairs(tokens)), options);
}

class RankTokenizer : public Tokenizer {
 public:
  explicit RankTokenizer(RankFile ranks)
      : ranks_(std::move(ranks)),
        bpe_(make_bpe(ranks_.tokens)),
        scanner_(known_scanner(ranks_.pattern)) {
    // What the regex does not match is dropped, as the reference does.
    if (!scanner_) {
      stage_ = make_split(regex_finder(ranks_.pattern, RegexDialect::kRust),
                          SplitBehavior::kRemoved, true);
    }
  }

  void encode(std::string_view text, std::vector<int32_t>& out) const override {
    std::string repaired;
    if (!text::is_valid_utf8(text)) {
      repaired = text::to_valid_utf8(text);
      text = repaired;
    }
    CachePool::Lease lease(caches_);
    if (stage_) {
      PieceList list;
      list.pieces.push_back({text, true});
      stage_->split(list);
      for (const auto& piece : list.pieces) bpe_.encode(piece.text, out, lease.cache());
      return;
    }
    std::array<std::string_view, 256> pieces;
    for (size_t position = 0; const size_t n = scanner_->scan(text, position, pieces);) {
      for (size_t i = 0; i < n; ++i) bpe_.encode(pieces[i], out, lease.cache());
    }
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string bytes;
    for (const int32_t id : ids) bytes += token_bytes(id);
    return text::to_valid_utf8(bytes);
  }

  std::string token_bytes(int32_t id) const override {
    if (ranks_.tokens.contains(id)) return std::string(ranks_.tokens.token(id));
    const auto special = ranks_.specials.find(id);
    if (special != ranks_.specials.end()) return special->second;
    throw Error("[tokenizer] {}: no token has the id {} — the vocabulary ends at {}", ranks_.file,
                id, vocab_size() - 1);
  }

  int64_t vocab_size() const override {
    const int64_t last_special = ranks_.specials.empty() ? -1 : ranks_.specials.rbegin()->first;
    return std::max<int64_t>(ranks_.tokens.size(), last_special + 1);
  }
  std::optional<int32_t> bos_id() const override { return ranks_.bos; }
  std::optional<int32_t> eos_id() const override { return ranks_.eos; }
  std::vector<std::string> description() const override {
    return {
        fmt::format("{}, {} ranks, {} special tokens, which text never forms", ranks_.kind,
                    ranks_.tokens.count(), ranks_.specials.size()),
        fmt::format("text is split by {}", scanner_ ? "a built-in scanner" : "the file's regex")};
  }

 private:
  RankFile ranks_;
  Bpe bpe_;
  std::unique_ptr<Scanner> scanner_;
  std::unique_ptr<PreTokenizer> stage_;
  CachePool caches_;
};

void check_bytes(const RankFile& ranks) {
  for (int byte = 0; byte < 256; ++byte) {
    if (!ranks.tokens.find(std::string(1, static_cast<char>(byte)))) {
      throw Error("[tokenizer] {}: no token for the byte 0x{:02X} — the file is not complete",
                  ranks.file, byte);
    }
  }
}

// "IQ== 0"
void read_rank_line(RankFile& ranks, std::string_view line, int64_t number) {
  const auto fail = [&](const std::string& problem) {
    throw Error("[tokenizer] {}, line {}: {}", ranks.file, number, problem);
  };
  const size_t blank = line.find(' ');
  if (blank == std::string_view::npos) fail(fmt::format("\"{}\" is not \"<base64> <rank>\"", line));
  const auto bytes = base64_decode(line.substr(0, blank));
  if (!bytes || bytes->empty()) fail(fmt::format("\"{}\" is no base64", line.substr(0, blank)));
  const std::string_view digits = line.substr(blank + 1);
  int32_t rank = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (error != std::errc() || end != digits.data() + digits.size() || rank < 0 ||
      rank > (1 << 24)) {
    fail(fmt::format("\"{}\" is no rank", digits));
  }
  if (ranks.tokens.add(*bytes, rank)) return;
  if (ranks.tokens.contains(rank)) fail(fmt::format("rank {} occurs twice", rank));
  fail(fmt::format("the token of rank {} occurs twice", rank));
}

// [{"rank": 0, "token_bytes": "AA==", …}, …], of which the first `num_ranks` count.
void read_tekken_ranks(const Json& vocab, int64_t num_ranks, int64_t first_id, RankFile& ranks) {
  if (!vocab.is_array()) vocab.fail("an array is needed");
  const JsonReader& reader = vocab.reader();
  int64_t rank = 0;
  reader.for_each_item(vocab.index(), [&](uint32_t index) {
    if (rank == num_ranks) return;
    const auto fail = [&](const std::string& problem) {
      vocab.fail(fmt::format("[{}]: {}", rank, problem));
    };
    if (reader.node(index).type != JsonReader::Type::kObject) fail("an object is needed");
    const auto stated = reader.member(index, "rank");
    const auto encoded = reader.member(index, "token_bytes");
    if (!stated || reader.node(*stated).text != std::to_string(rank))
      fail(fmt::format("\"rank\" must be {}", rank));
    if (!encoded || reader.node(*encoded).type != JsonReader::Type::kString)
      fail("\"token_bytes\" must be a string");
    const auto bytes = base64_decode(reader.node(*encoded).text);
    if (!bytes || bytes->empty())
      fail(fmt::format("\"{}\" is no base64", reader.node(*encoded).text));
    if (!ranks.tokens.add(*bytes, static_cast<int32_t>(first_id + rank)))
      fail("the token occurs twice");
    ++rank;
  });
  if (rank < num_ranks)
    vocab.fail(fmt::format("{} entries, but default_vocab_size needs {}", rank, num_ranks));
}

}  // namespace

std::unique_ptr<Tokenizer> load_tiktoken(const fs::path& file) {
  RankFile ranks;
  ranks.file = file.string();
  const files::Map map(file);
  const std::string_view content = map.bytes();
  int64_t number = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    std::string_view line = content.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    if (!line.empty()) read_rank_line(ranks, line, number);
    begin = end + 1;
  }
  if (ranks.tokens.count() != ranks.tokens.size()) {
    throw Error("[tokenizer] {}: {} ranks, but the largest is {} — the file is not complete",
                ranks.file, ranks.tokens.count(), ranks.tokens.size() - 1);
  }
  check_bytes(ranks);
  KnownRanks known = known_ranks(ranks.tokens.count(), ranks.file);
  ranks.kind = fmt::format("tiktoken rank file of {}", known.name);
  ranks.pattern = known.pattern;
  ranks.specials = std::move(known.specials);
  ranks.bos = known.bos;
  ranks.eos = known.eos;
  return std::make_unique<RankTokenizer>(std::move(ranks));
}

std::unique_ptr<Tokenizer> load_tekken(const JsonFile& file) {
  RankFile ranks;
  ranks.file = file.name();
  const Json root = file.root();
  const Json config = root.at("config");
  ranks.pattern = config.at("pattern").string();
  const int64_t vocab_size = config.at("default_vocab_size").integer();
  const int64_t num_special = config.at("default_num_special_tokens").integer();
  if (num_special < 0 || vocab_size <= num_special || vocab_size > (1 << 24)) {
    config.fail(
        fmt::format("{} tokens of which {} are special: not possible", vocab_size, num_special));
  }
  const int64_t num_ranks = vocab_size - num_special;
  read_tekken_ranks(root.at("vocab"), num_ranks, num_special, ranks);
  check_bytes(ranks);
  ranks.kind = fmt::format("tekken {}", config.string_or("version", "without version"));
  ranks.specials = tekken_specials(root.find("special_tokens"), num_special);
  for (const auto& [id, name] : ranks.specials) {
    if (name == "<s>") ranks.bos = id;
    if (name == "</s>") ranks.eos = id;
  }
  return std::make_unique<RankTokenizer>(std::move(ranks));
}

}  // namespace titan::data
