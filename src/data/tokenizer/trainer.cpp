#include "data/tokenizer/trainer.h"

#include <algorithm>
#include <array>
#include <queue>

#include "base/error.h"
#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/scanner.h"

namespace titan::data {
namespace {

struct Word {
  std::vector<int32_t> symbols;
  int64_t count;
};

using Pair = std::pair<int32_t, int32_t>;

struct PairHash {
  size_t operator()(const Pair& pair) const {
    return (static_cast<uint64_t>(static_cast<uint32_t>(pair.first)) << 32 |
            static_cast<uint32_t>(pair.second)) *
               0x9E3779B97F4A7C15u >>
           17;
  }
};

struct PairStats {
  int64_t count = 0;
  std::vector<int32_t>
      words;  // indices of words that hold the pair; a word may be listed although it lost the pair
};

// The working state of training: words, the counts of all pairs, and a queue of pairs by count.
class MergeSearch {
 public:
  explicit MergeSearch(std::vector<Word> words) : words_(std::move(words)) {
    for (int32_t index = 0; index < static_cast<int32_t>(words_.size()); ++index) {
      const auto& symbols = words_[index].symbols;
      for (size_t i = 0; i + 1 < symbols.size(); ++i)
        add({symbols[i], symbols[i + 1]}, words_[index].count, index);
    }
    for (const auto& [pair, stats] : pairs_) queue_.push({stats.count, pair});
  }

  // The most frequent pair; false when none occurs at least twice.
  bool best(Pair& pair) {
    while (!queue_.empty()) {
      const Entry top = queue_.top();
      queue_.pop();
      const int64_t count = pairs_[top.pair].count;
      if (count != top.count) {  // changed since it was queued
        if (count > 0) queue_.push({count, top.pair});
        continue;
      }
      if (count < 2) return false;
      pair = top.pair;
      return true;
    }
    return false;
  }

  // Replaces the pair by `token` in every word.
  void merge(Pair pair, int32_t token) {
    std::vector<int32_t> holders = std::move(pairs_[pair].words);
    std::sort(holders.begin(), holders.end());
    holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
    grown_.clear();
    for (const int32_t index : holders) merge_in_word(index, pair, token);
    pairs_.erase(pair);
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const Pair& grown : grown_) {
      const auto found = pairs_.find(grown);
      if (found != pairs_.end() && found->second.count > 0)
        queue_.push({found->second.count, grown});
    }
  }

 private:
  struct Entry {
    int64_t count;
    Pair pair;
    bool operator<(
        const Entry& other) const {  // the largest count first, of equals the smallest pair
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void add(Pair pair, int64_t count, int32_t word) {
    PairStats& stats = pairs_[pair];
    stats.count += count;
    if (count > 0 && (stats.words.empty() || stats.words.back() != word))
      stats.words.push_back(word);
  }

  void merge_in_word(int32_t index, Pair pair, int32_t token) {
    auto& [symbols, count] = words_[index];
    size_t put = 0;
    for (size_t i = 0; i < symbols.size(); ++i, ++put) {
      if (i + 1 >= symbols.size() || symbols[i] != pair.first || symbols[i + 1] != pair.second) {
        symbols[put] = symbols[i];
        continue;
      }
      if (put > 0) {
        add({symbols[put - 1], pair.first}, -count, index);
        add({symbols[put - 1], token}, count, index);
        grown_.push_back({symbols[put - 1], token});
      }
      if (i + 2 < symbols.size()) {
        add({pair.second, symbols[i + 2]}, -count, index);
        add({token, symbols[i + 2]}, count, index);
        grown_.push_back({token, symbols[i + 2]});
      }
      symbols[put] = token;
      ++i;
    }
    symbols.resize(put);
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, PairStats, PairHash> pairs_;
  std::priority_queue<Entry> queue_;
  std::vector<Pair> grown_;  // pairs whose count has risen during the running merge()
};

}  // namespace

void count_pieces(std::string_view text, PieceCounts& counts) {
  const auto scanner = known_scanner(kLlama3Pattern);
  std::array<std::string_view, 256> pieces;
  std::string key;
  for (size_t position = 0; const size_t n = scanner->scan(text, position, pieces);) {
    for (size_t i = 0; i < n; ++i) {
      key.assign(pieces[i]);
      ++counts[key];
    }
  }
}

TrainedBpe train_bpe(const PieceCounts& counts, int64_t vocab_size,
                     std::span<const std::string> special_tokens) {
  TrainedBpe result;
  result.tokens.assign(special_tokens.begin(), special_tokens.end());
  result.num_special = static_cast<int32_t>(special_tokens.size());
  TITAN_CHECK(vocab_size >= result.num_special + 256,
              "a vocabulary of {} has no room for the bytes", vocab_size);
  // Bytes in the order of the characters that stand for them, as other trainers number them.
  std::array<int, 256> bytes;
  for (int i = 0; i < 256; ++i) bytes[i] = i;
  std::sort(bytes.begin(), bytes.end(),
            [](int a, int b) { return byte_level::characters()[a] < byte_level::characters()[b]; });
  std::array<int32_t, 256> id_of{};
  for (const int byte : bytes) {
    id_of[byte] = static_cast<int32_t>(result.tokens.size());
    result.tokens.emplace_back(1, static_cast<char>(byte));
  }
  std::vector<const PieceCounts::value_type*> sorted;
  for (const auto& item : counts) sorted.push_back(&item);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->first < b->first; });
  std::vector<Word> words;
  for (const auto* item : sorted) {
    Word word{{}, item->second};
    for (const char byte : item->first)
      word.symbols.push_back(id_of[static_cast<unsigned char>(byte)]);
    words.push_back(std::move(word));
  }
  MergeSearch search(std::move(words));
  std::unordered_map<std::string, int32_t> known;  // two pairs may spell the same token
  for (const std::string& token : result.tokens)
    known.emplace(token, static_cast<int32_t>(known.size()));
  Pair pair;
  while (static_cast<int64_t>(result.tokens.size()) < vocab_size && search.best(pair)) {
    std::string joined = result.tokens[pair.first] + result.tokens[pair.second];
    const auto [found, is_new] = known.emplace(joined, static_cast<int32_t>(result.tokens.size()));
    if (is_new) result.tokens.push_back(std::move(joined));
    result.merges.push_back(pair);
    search.merge(pair, found->second);
  }
  return result;
}

}  // namespace titan::data
